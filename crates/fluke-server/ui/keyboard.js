// Every page by two keys, lists by j and k.

import { closeDialog, openDialog } from "./dialog.js";
import { keep, kept } from "./kept.js";
import { h } from "./view.js";

const PLACES = { f: "/", d: "/drift", t: "/tasks", v: "/services", e: "/events", s: "/source" };

const KEYS = [
  ["/", "Filter"],
  ["j, k", "Next or previous in a list"],
  ["Enter", "Open"],
  ["g then f, d, t, v, e, s", "Go to fleet, drift, tasks, services, events, source"],
  ["r", "Reconcile what the page shows"],
  ["Esc", "Close, or leave the filter"],
  ["?", "This help"],
];

const OFF = "fluke-keys-off";
let goes = false;

export function keyboard(go) {
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const inField = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape" && inField) {
      // Browsers would empty the field and tell nobody.
      event.preventDefault();
      inField.blur();
    }
    if (inField || kept(OFF) || document.querySelector("dialog[open]")) return;
    if (goes && PLACES[event.key]) go(PLACES[event.key]);
    goes = event.key === "g";
    const action = ACTIONS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

const ACTIONS = {
  "/": () => document.querySelector("main input[type=search]")?.focus(),
  "?": () => openHelp(),
  j: () => move(1),
  k: () => move(-1),
  r: () => document.querySelector("main button[data-reconcile]")?.click(),
};

/** Moves the focus along the links of the page's list. */
function move(by) {
  const links = [...document.querySelectorAll("main [data-list] a[href], main ul.rows a[href], main ul.tiles a[href]")];
  links.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top || a.getBoundingClientRect().left - b.getBoundingClientRect().left);
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, at + by)]?.focus();
}

export function openHelp() {
  openDialog(() => ({
    title: "Keyboard",
    body: [
      h("dl", { class: "keys" }, KEYS.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
      h("label", { class: "switch" },
        h("input", { type: "checkbox", initially: { checked: !kept(OFF) }, onchange: (event) => keep(OFF, event.target.checked ? "" : "yes") }),
        "Use these keys"),
    ],
    actions: h("button", { type: "button", onclick: closeDialog }, "Close"),
  }));
}

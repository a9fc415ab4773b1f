// What stands around every page: the way through, and whether what one sees is live.

import { icon, mark } from "./icons.js";
import { mayChange, own, store } from "./store.js";
import { openHelp } from "./keyboard.js";
import { showProgress } from "./reconcile.js";
import { nextTheme, themeName } from "./theme.js";
import { h } from "./view.js";

const PAGES = [
  ["/", "Fleet", "fleet"],
  ["/drift", "Drift", "drift"],
  ["/tasks", "Tasks", "tasks"],
  ["/services", "Services", "services"],
  ["/events", "Events", "events"],
  ["/source", "Source", "source"],
];

export function frame(main) {
  return [
    h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to content"),
    h("header", { class: "top" },
      h("div", { class: "top-inner" },
        h("a", { class: "home", href: "/", "aria-label": "fluke, the fleet" }, mark(), h("span", null, "fluke")),
        h("nav", { class: "pages", "aria-label": "Pages" }, PAGES.map(pageLink)),
        h("div", { class: "corner" }, liveSign(), running(), theme(), person()))),
    stale() && h("p", { class: "stale", role: "status" }, stale()),
    store.isOutdated && h("p", { class: "stale", role: "status" }, "The server runs another version now. ", h("a", { href: location.href, target: "_self" }, "Load its pages")),
    main,
    h("footer", { class: "foot" },
      h("span", null, `fluke ${store.session?.version ?? ""}`),
      h("button", { type: "button", class: "plain", onclick: openHelp }, "Keyboard"),
      h("a", { href: "/api/v1/openapi.json", target: "_blank", rel: "noopener" }, "API")),
  ];
}

function stale() {
  if (store.problem && store.agents) return `What you see may be old: ${store.problem.message}`;
  return store.live === "off" && "The connection to the server is lost. What you see may be old; it is tried again by itself.";
}

function pageLink([href, name, sign]) {
  const isHere = href === "/" ? location.pathname === "/" || location.pathname.startsWith("/agents/") : location.pathname.startsWith(href);
  const number = badgeOf(href);
  return h("a", { key: href, href, "aria-current": isHere ? "page" : undefined },
    icon(sign), h("span", null, name),
    number && h("span", { class: "number" }, number, h("span", { class: "unseen" }, href === "/drift" ? " drifted" : " problem")));
}

function badgeOf(href) {
  if (href === "/drift" && store.driftCount > 0) return store.driftIsCut ? `${store.driftCount}+` : String(store.driftCount);
  if (href === "/source" && (store.source?.rejected || store.source?.error)) return "!";
  return null;
}

function liveSign() {
  const said = { on: "Live", connecting: "Connecting", off: "Not live" }[store.live];
  return h("span", { class: `live is-${store.live}`, title: "Whether changes arrive by themselves" }, h("i", null), h("span", null, said));
}

/** A reconcile that goes on while one looks elsewhere. */
function running() {
  const progress = [...store.reconciles.values()].findLast((one) => !one.done && own.ids.includes(one.id));
  return progress && h("button", { type: "button", class: "plain is-applying", onclick: () => showProgress(progress.id) }, icon("repair"), "Reconciling");
}

function theme() {
  const name = themeName();
  return h("button", { type: "button", class: "plain", "aria-label": `Theme: ${name}`, title: `Theme: ${name}`, onclick: nextTheme },
    icon(name));
}

function person() {
  const { session } = store;
  if (!session) return null;
  if (session.signed_in && session.tokens_configured) {
    return h("form", { method: "post", action: "/sign-out", class: "person" },
      h("span", { class: "person-name" }, icon("person"), session.name || "Signed in"),
      h("button", { class: "plain" }, "Sign out"));
  }
  return mayChange() ? null : h("span", { class: "tag", title: "Changes are made on the server's host, or by people who are signed in" }, "Read-only");
}

function skip(event) {
  event.preventDefault();
  event.stopPropagation();
  document.getElementById("main").focus();
}

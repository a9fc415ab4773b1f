// Puts it all together: the frame around every page, the way from address to page, the keyboard.

import { agentPage } from "./agent.js";
import { connect } from "./live.js";
import { driftPage } from "./drift.js";
import { eventsPage } from "./events.js";
import { fleetPage } from "./fleet.js";
import { frame } from "./frame.js";
import { keyboard } from "./keyboard.js";
import { load, onChange, renew, store } from "./store.js";
import { sourcePage } from "./source.js";
import { taskPage, tasksPage } from "./tasks.js";
import { empty } from "./parts.js";
import { h, patch } from "./view.js";
import { renderDialog } from "./dialog.js";

/** How often ages are told anew, in milliseconds. */
const TICK = 10_000;
/** How often the session is renewed. */
const RENEW = 3_600_000;

const ROUTES = [
  [/^\/$/, fleetPage],
  [/^\/agents\/(.+)$/, agentPage],
  [/^\/tasks$/, tasksPage],
  [/^\/tasks\/(.+)$/, taskPage],
  [/^\/drift$/, driftPage],
  [/^\/events$/, eventsPage],
  [/^\/source$/, sourcePage],
];

const root = document.getElementById("fluke");
let page = null;
let path = null;
let isDrawn = false;

/** Draws in the next frame, however often it is asked. */
export function redraw() {
  if (isDrawn) return;
  isDrawn = true;
  requestAnimationFrame(draw);
}

function draw() {
  isDrawn = false;
  document.documentElement.dataset.live = store.live;
  document.title = `${titleMark()}${page.title} · fluke`;
  const main = h("main", { id: "main", tabindex: -1, "data-page": page.name, "data-ready": String(page.isReady()), key: path }, page.render());
  patch(root, frame(main));
  renderDialog();
}

/** What is wrong shows in a tab that is in the background too. */
function titleMark() {
  const wrong = store.counts ? store.counts.failed + store.counts.drifted : 0;
  return wrong > 0 ? `(${wrong}) ` : "";
}

/** Shows an address of this site. */
export function go(address, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", address);
  else {
    history.replaceState({ scroll: scrollY }, "");
    history.pushState(null, "", address);
  }
  arrive(false);
}

function arrive(isBack) {
  if (location.pathname === path) return redraw();
  page?.leave?.();
  path = location.pathname;
  page = pageAt(path);
  isDrawn = true;
  draw();
  scrollTo(0, isBack ? history.state?.scroll ?? 0 : 0);
  if (!isBack) document.getElementById("main").focus({ preventScroll: true });
  redraw();
}

function pageAt(at) {
  for (const [pattern, make] of ROUTES) {
    const match = pattern.exec(at);
    if (match) return make(go, match[1] && decodeURIComponent(match[1]), redraw);
  }
  return {
    name: "not-found",
    title: "Not found",
    isReady: () => true,
    render: () => empty("There is no such page", h("p", null, h("a", { href: "/" }, "Back to the fleet"))),
  };
}

/** Links within the site are followed without loading it anew. */
function follow(event) {
  const link = event.target.closest?.("a[href]");
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !isPlain || link.origin !== location.origin || link.target) return;
  event.preventDefault();
  go(link.getAttribute("href"));
}

document.addEventListener("click", follow);
addEventListener("popstate", () => arrive(true));
addEventListener("scroll", redraw, { passive: true });
addEventListener("resize", redraw);
keyboard(go);
onChange(redraw);
setInterval(redraw, TICK);
setInterval(renew, RENEW);
arrive(true);
load();
connect();

// Puts it all together: the frame around every page, the way from address to page, the keyboard.

import { agentPage } from "./agent.js";
import { connect } from "./live.js";
import { driftPage } from "./drift.js";
import { eventsPage } from "./events.js";
import { fleetPage } from "./fleet.js";
import { frame } from "./frame.js";
import { keyboard } from "./keyboard.js";
import { onChange, renew, store, tidy } from "./store.js";
import { sourcePage } from "./source.js";
import { servicePage, servicesPage } from "./services.js";
import { taskPage, tasksPage } from "./tasks.js";
import { nothingHere } from "./parts.js";
import { h, patch } from "./view.js";
import { closeDialog, renderDialog } from "./dialog.js";

/** How often ages are told anew, in milliseconds. */
const TICK = 10_000;
/** How often the session is renewed. */
const RENEW = 3_600_000;

const ROUTES = [
  [/^\/$/, fleetPage],
  [/^\/agents\/(.+)$/, agentPage],
  [/^\/tasks$/, tasksPage],
  [/^\/tasks\/(.+)$/, taskPage],
  [/^\/services$/, servicesPage],
  [/^\/services\/(.+)$/, servicePage],
  [/^\/drift$/, driftPage],
  [/^\/events$/, eventsPage],
  [/^\/source$/, sourcePage],
];

const root = document.getElementById("fluke");
let page = null;
let path = null;
let isDrawn = false;
/** Where to scroll once the page has its data. */
let place = null;

/** Draws in the next frame, however often it is asked. */
function redraw() {
  if (isDrawn) return;
  isDrawn = true;
  requestAnimationFrame(draw);
}

function draw() {
  isDrawn = false;
  tidy();
  document.documentElement.dataset.live = store.live;
  nameTab();
  const isReady = page.isReady();
  const main = h("main", { id: "main", tabindex: -1, "aria-label": page.title, "data-page": page.name, "data-ready": String(isReady), key: path }, page.render());
  patch(root, frame(main));
  renderDialog();
  if (isReady && place !== null) {
    scrollTo(0, place);
    place = null;
    redraw();
  }
}

/** What is wrong shows in a tab that is in the background, which is never drawn. */
function nameTab() {
  const wrong = store.counts ? store.counts.failed + store.counts.drifted : 0;
  document.title = `${wrong > 0 ? `(${wrong}) ` : ""}${page.title} · fluke`;
}

function changed() {
  if (document.hidden) {
    tidy();
    nameTab();
  }
  redraw();
}

/** Shows an address of this site. */
function go(address, { replace = false } = {}) {
  if (replace || address === location.pathname + location.search) history.replaceState(null, "", address);
  else {
    history.replaceState({ scroll: scrollY }, "");
    history.pushState(null, "", address);
  }
  arrive(false);
}

function arrive(isBack) {
  if (location.pathname === path) return redraw();
  page?.leave?.();
  closeDialog();
  path = location.pathname;
  page = pageAt(path);
  place = isBack ? history.state?.scroll ?? 0 : 0;
  isDrawn = true;
  draw();
  if (!isBack) document.getElementById("main").focus({ preventScroll: true });
}

function pageAt(at) {
  for (const [pattern, make] of ROUTES) {
    const match = pattern.exec(at);
    if (match) return make(go, match[1] && decoded(match[1]), redraw);
  }
  return {
    name: "not-found",
    title: "Not found",
    isReady: () => true,
    render: () => nothingHere("There is no such page", h("p", null, h("a", { href: "/" }, "Back to the fleet"))),
  };
}

/** What is no proper name is shown as it is: nothing is called so. */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
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
// Scrolling changes what is drawn where only what is in sight is drawn.
addEventListener("scroll", () => page.isLong && redraw(), { passive: true });
addEventListener("resize", redraw);
addEventListener("pagehide", () => history.replaceState({ scroll: scrollY }, ""));
document.addEventListener("visibilitychange", redraw);
history.scrollRestoration = "manual";
keyboard(go);
onChange(changed);
setInterval(redraw, TICK);
setInterval(renew, RENEW);
arrive(true);
connect();

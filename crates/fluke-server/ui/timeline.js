// History, newest first: fetched in pages, and growing at the top as things happen.

import { get } from "./api.js";
import { empty, eventLine, trouble } from "./parts.js";
import { listen } from "./store.js";
import { h } from "./view.js";

const PAGE = 50;
const MOST = 2000;

/** The events that `filter` (agent, task, kind) lets through. */
export function timeline(filter, redraw) {
  const wanted = Object.entries(filter).filter(([, value]) => value);
  let events = null;
  let next = null;
  let problem = null;
  let isReading = false;

  async function more() {
    if (isReading) return;
    isReading = true;
    const query = new URLSearchParams([...wanted, ["limit", PAGE]]);
    if (next) query.set("before", next);
    try {
      const page = await get(`/events?${query}`);
      const known = new Set((events ?? []).map((event) => event.id));
      events = [...(events ?? []), ...page.events.filter((event) => !known.has(event.id))];
      next = page.next;
      problem = null;
    } catch (failure) {
      problem = failure;
    }
    isReading = false;
    redraw();
  }

  const stop = listen((kind, event) => {
    if (kind !== "event" || events === null) return;
    if (!wanted.every(([field, value]) => event[field] === value)) return;
    if (events.some((known) => known.id === event.id)) return;
    events = [event, ...events].slice(0, MOST);
  });
  more();

  return {
    leave: stop,
    isReady: () => events !== null || problem !== null,
    render(options) {
      return [
        problem && trouble("History cannot be read now", problem.message),
        events?.length === 0 && empty("Nothing has happened yet", h("p", null, "What fluke does, and why, is told here as it happens.")),
        events?.length > 0 && h("ol", { class: "timeline", "aria-label": "Events, newest first" }, events.map((event) => eventLine(event, options))),
        next && h("button", { type: "button", disabled: isReading, onclick: more }, "Show older events"),
      ];
    },
  };
}

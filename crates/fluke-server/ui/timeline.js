// History, newest first: fetched in pages, and growing at the top as things happen.

import { get } from "./api.js";
import { empty, eventLine, trouble } from "./parts.js";
import { listen } from "./store.js";
import { h } from "./view.js";

const PAGE = 50;
/** More than this is not kept: older ones can be fetched again. */
const MOST = 300;

/** The events that `filter` (agent, task, service, kind) lets through. */
export function timeline(filter, redraw) {
  const wanted = Object.entries(filter).filter(([, value]) => value);
  let events = null;
  let next = null;
  let problem = null;
  let isReading = false;
  /** What is heard while the first page is being read. */
  let news = [];

  async function more() {
    if (isReading) return;
    isReading = true;
    const query = new URLSearchParams([...wanted, ["limit", PAGE]]);
    if (next) query.set("before", next);
    try {
      const page = await get(`/events?${query}`);
      events = merged(news, events ?? [], page.events);
      news = [];
      next = page.next;
      problem = null;
    } catch (failure) {
      problem = failure;
    }
    isReading = false;
    redraw();
  }

  function heard(kind, event) {
    if (kind === "reloaded") return anew();
    if (kind !== "event" || !wanted.every(([field, value]) => event[field] === value)) return;
    if (events === null) {
      news = [event, ...news];
      return;
    }
    events = merged([event], events);
    if (events.length > MOST) {
      events = events.slice(0, MOST);
      next = events.at(-1).id;
    }
  }

  /** After a gap nobody knows what is missing. */
  function anew() {
    if (events === null) return;
    next = null;
    events = null;
    more();
  }

  const stop = listen(heard);
  more();

  return {
    leave: stop,
    isReady: () => events !== null || problem !== null,
    render(options) {
      return [
        problem && [
          trouble("History cannot be read now", problem.message),
          h("button", { type: "button", disabled: isReading, onclick: more }, "Try again"),
        ],
        events?.length === 0 && (wanted.length > 0
          ? empty("No event matches", h("p", null, "Nothing is remembered of it: events are kept for a while only."))
          : empty("Nothing has happened yet", h("p", null, "What fluke does, and why, is told here as it happens."))),
        events?.length > 0 && h("ol", { class: "timeline", "aria-label": "Events, newest first" }, events.map((event) => eventLine(event, options))),
        next && !problem && h("button", { type: "button", disabled: isReading, onclick: more }, "Show older events"),
      ];
    },
  };
}

/** One after the other, each event once. */
function merged(...lists) {
  const byId = new Map(lists.flat().map((event) => [event.id, event]));
  return [...byId.values()];
}

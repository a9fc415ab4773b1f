// Everything that happened, narrowed by agent, task, service and kind.

import { KINDS, kindName } from "./words.js";
import { timeline } from "./timeline.js";
import { h } from "./view.js";

const FIELDS = ["agent", "task", "service", "kind"];

export function eventsPage(go, _, redraw) {
  let search = null;
  let list = null;

  function chosen() {
    const query = new URLSearchParams(location.search);
    return Object.fromEntries(FIELDS.map((field) => [field, query.get(field) ?? ""]));
  }

  return {
    name: "events",
    title: "Events",
    isReady: () => Boolean(list?.isReady()),
    leave: () => list?.leave(),
    render() {
      const filter = chosen();
      if (search !== location.search) {
        list?.leave();
        search = location.search;
        list = timeline(filter, redraw);
      }
      return [
        h("header", { class: "headline" }, h("h1", null, "Events"), h("p", { class: "quiet" }, "What ran, where, why, and how it ended; newest first.")),
        form(filter, go),
        list.render(),
      ];
    },
  };
}

function form(filter, go) {
  const set = (field) => (event) => {
    const query = new URLSearchParams(Object.entries({ ...filter, [field]: event.target.value.trim() }).filter(([, value]) => value));
    go(`/events${query.size ? `?${query}` : ""}`);
  };
  const text = (field, label) => h("label", { class: "menu" }, h("span", null, label),
    h("input", { type: "search", value: filter[field], placeholder: "any", onchange: set(field), autocomplete: "off", spellcheck: "false" }));
  return h("section", { class: "toolbar narrowing", "aria-label": "Filter" },
    text("agent", "Agent"), text("task", "Task"), text("service", "Service"),
    h("label", { class: "menu" }, h("span", null, "Kind"),
      h("select", { value: filter.kind, onchange: set("kind") }, h("option", { value: "" }, "any"),
        KINDS.map((kind) => h("option", { key: kind, value: kind }, kindName(kind))))),
    FIELDS.some((field) => filter[field]) && h("a", { href: "/events" }, "Clear all filters"));
}

// The fleet: every agent, what is wrong first, narrowed by status, labels and name.

import { pathOf } from "./api.js";
import { facets, isFiltered, matching, readFilter, toggled, writeFilter } from "./filter.js";
import { icon, statusIcon } from "./icons.js";
import { command, empty, labelList, moment, notice, standingSince, trouble, waiting } from "./parts.js";
import { longList } from "./virtual.js";
import { countByStatus, store } from "./store.js";
import { count, grouped, holdings, ownerName, shortCommit, STATUSES, statusName } from "./words.js";
import { h } from "./view.js";

const ROW = 52;
const NARROW_ROW = 76;
const TILE = 48;
const TILE_WIDTH = 190;

export function fleetPage(go) {
  const rows = longList("Hosts");
  const tiles = longList("Hosts");
  let drawn = { key: null };
  let menus = { membership: -1 };

  /** Filtering and ordering are done anew only when something changed. */
  function selection(filter, search) {
    if (drawn.key === search && drawn.version === store.version) return drawn;
    const found = matching(store.sorted, filter);
    const counts = countByStatus(found);
    const wanted = filter.status.length ? filter.status : STATUSES;
    const shown = STATUSES.filter((status) => wanted.includes(status))
      .flatMap((status) => found.filter((agent) => agent.status === status));
    if (menus.membership !== store.membership) {
      menus = { membership: store.membership, facets: facets(store.sorted) };
    }
    drawn = { key: search, version: store.version, counts, shown, facets: menus.facets };
    return drawn;
  }

  return {
    name: "fleet",
    title: "Fleet",
    isLong: true,
    isReady: () => store.agents !== null || store.problem !== null,
    render() {
      if (store.problem && !store.agents) return trouble("The fleet cannot be read", store.problem.message);
      if (!store.agents) return waiting("the fleet");
      const filter = readFilter(location.search);
      const set = (next, options) => go(`/${writeFilter(next)}`, options);
      const chosen = selection(filter, location.search);
      return [
        headline(store.counts, store.sorted.length),
        sourceNotice(),
        store.sorted.length === 0 ? firstAgent() : [
          toolbar(filter, chosen, set),
          chosen.shown.length === 0 ? nothingFound(filter, set) :
            filter.view === "tiles"
              ? tiles(chosen.shown, TILE, tile, { class: "tiles", columns: columns() })
              : rows(chosen.shown, innerWidth < 720 ? NARROW_ROW : ROW, row, { class: "rows" }),
        ],
      ];
    },
  };
}

const columns = () => Math.max(1, Math.floor(Math.min(innerWidth - 32, 1200) / TILE_WIDTH));

/** The answer to the first question: is anything wrong? */
function headline(counts, total) {
  const wrong = counts.failed + counts.drifted;
  const text = total === 0 ? "No host has joined yet"
    : wrong > 0 ? `${count(wrong, "host")} of ${grouped(total)} ${wrong === 1 ? "is" : "are"} not as Git says`
    : counts.offline > 0 ? `${count(counts.offline, "host")} of ${grouped(total)} ${counts.offline === 1 ? "is" : "are"} offline`
    : counts.applying > 0 ? `${count(counts.applying, "host")} ${counts.applying === 1 ? "is" : "are"} being put right`
    : counts.unknown > 0 ? `${count(counts.unknown, "host")} ${counts.unknown === 1 ? "has" : "have"} not been checked yet`
    : total === 1 ? "The one host is as Git says" : `All ${grouped(total)} hosts are as Git says`;
  const { source } = store;
  return h("header", { class: "headline" },
    h("h1", null, text),
    source?.commit && h("p", { class: "quiet" }, "Held to commit ", h("a", { href: "/source" }, h("code", null, shortCommit(source.commit))),
      source.branch && ` of ${source.branch}`, ", in force ", standingSince(source.commit_since), "."));
}

function sourceNotice() {
  const { source } = store;
  if (source?.rejected) {
    return notice("failed", `Commit ${shortCommit(source.last_seen)} was rejected`,
      h("p", null, source.commit ? "The last good one stays in force. " : "No commit is in force yet. ", h("a", { href: "/source" }, "See what is wrong with it")));
  }
  if (source?.error) {
    return notice("drifted", "The repository cannot be read",
      h("p", null, source.error, " ", h("a", { href: "/source" }, "Source")));
  }
  return null;
}

function toolbar(filter, chosen, set) {
  return h("section", { class: "toolbar", "aria-label": "Filter" },
    h("div", { class: "statuses", role: "group", "aria-label": "Status" },
      STATUSES.filter((status) => store.counts[status] > 0 || filter.status.includes(status)).map((status) =>
        h("button", {
          key: status, type: "button", class: `status-button is-${status}`,
          "aria-pressed": String(filter.status.includes(status)),
          onclick: () => set(toggled(filter, "status", status)),
        }, statusIcon(status), h("span", null, statusName(status)), h("b", null, grouped(chosen.counts[status]))))),
    h("div", { class: "narrowing" },
      h("label", { class: "search" }, icon("search"),
        h("span", { class: "unseen" }, "Filter by name or label"),
        h("input", {
          type: "search", name: "filter", placeholder: "Name, or label=value", autocomplete: "off", spellcheck: "false",
          value: filter.name, "aria-keyshortcuts": "/",
          oninput: (event) => set({ ...filter, name: event.target.value }, { replace: true }),
        })),
      chosen.facets.map((facet) => labelMenu(facet, filter, set)),
      h("div", { class: "views", role: "group", "aria-label": "View" },
        ["rows", "tiles"].map((view) => h("button", {
          key: view, type: "button", "aria-pressed": String(filter.view === view),
          "aria-label": view === "rows" ? "As rows" : "As tiles", title: view === "rows" ? "As rows" : "As tiles",
          onclick: () => set({ ...filter, view }),
        }, icon(view))))),
    isFiltered(filter) && h("p", { class: "chosen", role: "status" },
      `${count(chosen.shown.length, "host")} of ${grouped(store.sorted.length)}`,
      filter.labels.map((label) => h("button", {
        key: label, type: "button", class: "chip", "aria-label": `Remove the filter ${label}`,
        onclick: () => { set(toggled(filter, "labels", label)); focusFilter(); },
      }, label, icon("close"))),
      clearing(filter, set)));
}

const clearing = (filter, set) => h("button", {
  type: "button", class: "link",
  onclick: () => { set({ status: [], labels: [], name: "", view: filter.view }); focusFilter(); },
}, "Clear all filters");

/** What had the focus goes away with its filter. */
const focusFilter = () => document.querySelector("main input[type=search]")?.focus();

function labelMenu({ key, values }, filter, set) {
  const chosen = filter.labels.find((label) => label.startsWith(`${key}=`));
  const choose = (event) => {
    const others = filter.labels.filter((label) => label !== chosen);
    set({ ...filter, labels: event.target.value ? [...others, `${key}=${event.target.value}`] : others });
  };
  return h("label", { class: "menu", key: `label ${key}` },
    h("span", null, key),
    h("select", { value: chosen ? chosen.slice(key.length + 1) : "", onchange: choose },
      h("option", { value: "" }, "any"),
      values.map(([value, number]) => h("option", { key: value, value }, `${value} (${grouped(number)})`))));
}

function row(agent) {
  return h("a", { class: `row is-${agent.status}`, href: pathOf("agents", agent.name) },
    h("span", null, statusIcon(agent.status), h("span", { class: "unseen" }, statusName(agent.status))),
    h("span", { class: "row-name", title: agent.name }, agent.name),
    h("span", { class: "row-why" }, why(agent)),
    h("span", { class: "row-labels" }, labelList(agent.labels)),
    h("span", { class: "row-when quiet" }, when(agent)));
}

function tile(agent) {
  return h("a", { class: `tile is-${agent.status}`, href: pathOf("agents", agent.name), title: plainWhy(agent) },
    statusIcon(agent.status), h("span", { class: "tile-name" }, agent.name), h("span", { class: "unseen" }, statusName(agent.status)));
}

/** The first thing that is wrong, in words. */
function why(agent) {
  const drifts = store.drift.get(agent.name) ?? [];
  if (agent.error) return agent.error;
  if (agent.status === "offline") return h("span", { class: "quiet" }, "Offline");
  if (drifts.length === 0) return h("span", { class: "quiet" }, plainWhy(agent));
  const [first] = drifts;
  const waits = first.policy === "alert_only" && agent.status === "drifted";
  return [
    waits && h("span", { class: "tag" }, "waits for approval"), waits && " ",
    h("b", null, ownerName(first)), ` ${firstLine(first.reason ?? statusName(first.status))}`,
    drifts.length > 1 && h("span", { class: "quiet" }, ` and ${drifts.length - 1} more`),
  ];
}

function plainWhy(agent) {
  const { tasks, services = {} } = agent;
  const sum = (field) => tasks[field] + (services[field] ?? 0);
  const had = holdings(agent);
  if (!had) return "no task matches it";
  if (agent.status === "in_sync") return had;
  const [failed, drifted] = [sum("failed"), sum("drifted")];
  const parts = [failed && `${failed} failed`, drifted && `${drifted} drifted`, `${sum("in_sync")} of ${had} in sync`];
  return parts.filter(Boolean).join(", ");
}

const firstLine = (text) => text.split("\n", 1)[0];

function when(agent) {
  const drifts = store.drift.get(agent.name);
  if (agent.status === "offline") return ["seen ", moment(agent.last_seen)];
  if (drifts?.[0]?.since && agent.status !== "in_sync") return standingSince(drifts[0].since);
  return null;
}

function nothingFound(filter, set) {
  return empty("No host matches these filters", h("p", null, clearing(filter, set), " to see the whole fleet."));
}

function firstAgent() {
  return empty("Let the first host join",
    h("p", null, "On the server's host, print the line that an agent needs:"),
    command("fluke join-line"),
    h("p", null, "Run what it prints on the host that is to join. It appears here the moment it connects; no reload is needed."));
}

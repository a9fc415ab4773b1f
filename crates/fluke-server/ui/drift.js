// Everything that is not as Git says now, by task: one cause often stands behind many hosts.

import { agentLink, empty, policyTag, standingSince, taskLink, waiting } from "./parts.js";
import { policyMeaning, count, statusName } from "./words.js";
import { reconcileButton } from "./reconcile.js";
import { statusIcon } from "./icons.js";
import { store } from "./store.js";
import { h } from "./view.js";

/** Hosts of one task that are listed before the rest is counted. */
const MOST_LISTED = 100;

export function driftPage() {
  return {
    name: "drift",
    title: "Drift",
    isReady: () => store.agents !== null && store.driftIsKnown,
    render() {
      if (!store.driftIsKnown) return waiting("drift");
      const entries = [...store.drift.values()].flat();
      return [
        h("header", { class: "headline with-action" },
          h("div", null,
            h("h1", null, entries.length === 0 ? "Nothing is drifted" : `${count(entries.length, "step")}${store.driftIsCut ? " and more" : ""} ${entries.length === 1 ? "is" : "are"} drifted`),
            h("p", { class: "quiet" }, "What waits for somebody comes first, then what was drifted longest.")),
          entries.length > 0 && reconcileButton({ scope: "all" }, "Reconcile all", { "data-reconcile": true })),
        entries.length === 0 && empty("Every host that is connected is as Git says", h("p", null, "When a check says otherwise, it is shown here with its reason.")),
        h("div", { "data-list": true }, groups(entries).map(group)),
      ];
    },
  };
}

function groups(entries) {
  const byTask = new Map();
  for (const entry of entries) {
    if (!byTask.has(entry.task)) byTask.set(entry.task, []);
    byTask.get(entry.task).push(entry);
  }
  const first = (list) => list.reduce((least, entry) => (entry.since && entry.since < least ? entry.since : least), "9");
  const waits = (list) => (list[0].policy === "alert_only" ? 0 : 1);
  return [...byTask].sort(([, a], [, b]) => waits(a) - waits(b) || (first(a) < first(b) ? -1 : 1));
}

function group([task, entries]) {
  const policy = entries[0].policy;
  const hosts = new Set(entries.map((entry) => entry.agent)).size;
  return h("section", { key: task, class: "card", "aria-label": task },
    h("div", { class: "card-head" },
      h("h2", null, taskLink(task)), policyTag(policy),
      h("span", { class: "quiet" }, `${count(hosts, "host")}; ${policyMeaning(policy)}`),
      reconcileButton({ scope: "task", name: task }, policy === "alert_only" ? "Put right everywhere …" : "Put right now", { class: "" })),
    h("ul", { class: "plain-list" }, entries.slice(0, MOST_LISTED).map(line)),
    entries.length > MOST_LISTED && h("p", null, `and ${count(entries.length - MOST_LISTED, "more step")}; `, taskLink(task)));
}

function line(entry) {
  return h("li", { key: `${entry.agent} ${entry.step}` }, statusIcon(entry.status),
    h("div", { class: "grow" },
      h("p", null, agentLink(entry.agent), " ", h("code", null, entry.step), " ", h("span", { class: "quiet" }, statusName(entry.status), " ", standingSince(entry.since))),
      entry.reason && h("p", { class: "reason" }, entry.reason)),
    entry.policy === "alert_only" && reconcileButton({ scope: "task", name: entry.task, agent: entry.agent, isApproval: true }, "Approve …", { "aria-label": `Approve ${entry.task} on ${entry.agent}` }));
}

// Everything that is not as Git says now, by task: one cause often stands behind many hosts.

import { agentLink, empty, outOfDate, policyTag, standingSince, taskLink, trouble, waiting } from "./parts.js";
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
    isReady: () => store.agents !== null && (store.driftIsKnown || store.driftProblem !== null),
    render() {
      if (!store.driftIsKnown && store.driftProblem) return trouble("Drift cannot be read", store.driftProblem.message);
      if (!store.driftIsKnown || !store.counts) return waiting("drift");
      const entries = [...store.drift.values()].flat();
      return [
        outOfDate(store.driftProblem),
        h("header", { class: "headline with-action" },
          h("div", null,
            h("h1", null, entries.length === 0 ? (troubled() > 0 ? "No step is drifted" : "Nothing is drifted") : `${count(entries.length, "step")}${store.driftIsCut ? " and more" : ""} ${entries.length === 1 ? "is" : "are"} drifted`),
            entries.length > 0 && h("p", { class: "quiet" }, "What waits for approval comes first, then what was drifted longest.")),
          entries.length > 0 && reconcileButton({ scope: "all" }, { "data-reconcile": true })),
        entries.length === 0 && calm(),
        h("div", { "data-list": true }, groups(entries).map(group)),
      ];
    },
  };
}

/** How many hosts have services that are not as they should be. */
const troubled = () => store.sorted.filter(({ services }) => services && services.drifted + services.failed > 0).length;

/** No drift is known; whether that is good news depends on what is known at all. */
function calm() {
  const { in_sync: right, failed, offline, unknown } = store.counts;
  if (store.sorted.length === 0) return empty("No host has joined yet", h("p", null, "See how the first one joins: ", h("a", { href: "/" }, "the fleet")));
  const others = [[failed, "failed"], [offline, "offline"], [unknown, "not checked yet"]].filter(([number]) => number > 0);
  const rest = others.map(([number, said]) => `${count(number, "host")} ${said}`).join(", ");
  return empty(`${count(right, "host")} ${right === 1 ? "is" : "are"} as Git says`,
    troubled() > 0 && h("p", null, `Services are not as they should be on ${count(troubled(), "host")}. `, h("a", { href: "/services" }, "See the services")),
    rest && h("p", null, "Nothing is known to be drifted on the others: ", rest, ". ", h("a", { href: "/" }, "See the fleet")),
    h("p", null, "When a check finds drift, it is shown here with its reason."));
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
      reconcileButton({ scope: "task", name: task }, { class: "", "aria-label": `Reconcile ${task} everywhere …` })),
    h("ul", { class: "plain-list" }, entries.slice(0, MOST_LISTED).map(line)),
    entries.length > MOST_LISTED && h("p", null, `and ${count(entries.length - MOST_LISTED, "more step")}; `, taskLink(task)));
}

function line(entry) {
  return h("li", { key: `${entry.agent} ${entry.step}` }, statusIcon(entry.status),
    h("div", null,
      h("p", null, agentLink(entry.agent), " ", h("code", null, entry.step), " ", h("span", { class: "quiet" }, statusName(entry.status), " ", standingSince(entry.since))),
      entry.reason && h("p", { class: "reason" }, entry.reason)),
    entry.policy === "alert_only" && store.agents.get(entry.agent)?.connected && reconcileButton({ scope: "task", name: entry.task, agent: entry.agent, isApproval: true }, { "aria-label": `Approve ${entry.task} on ${entry.agent} …` }));
}

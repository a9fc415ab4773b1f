// Everything that is not as Git says now, by task and by service: one cause often stands behind many hosts.

import { agentLink, empty, outOfDate, ownerLink, policyTag, standingSince, trouble, waiting } from "./parts.js";
import { count, driftCount, ownerName, policyMeaning, statusName } from "./words.js";
import { reconcileButton } from "./reconcile.js";
import { statusIcon } from "./icons.js";
import { store } from "./store.js";
import { h } from "./view.js";

/** Hosts of one task or service that are listed before the rest is counted. */
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
            h("h1", null, entries.length === 0 ? "Nothing is drifted" : `${driftCount(entries)}${store.driftIsCut ? " and more" : ""} ${entries.length === 1 ? "is" : "are"} drifted`),
            entries.length > 0 && h("p", { class: "quiet" }, "What waits for approval comes first, then what was drifted longest.")),
          entries.length > 0 && reconcileButton({ scope: "all" }, { "data-reconcile": true })),
        entries.length === 0 && calm(),
        h("div", { "data-list": true }, groups(entries).map(group)),
      ];
    },
  };
}

/** No drift is known; whether that is good news depends on what is known at all. */
function calm() {
  const { in_sync: right, failed, offline, unknown } = store.counts;
  if (store.sorted.length === 0) return empty("No host has joined yet", h("p", null, "See how the first one joins: ", h("a", { href: "/" }, "the fleet")));
  const others = [[failed, "failed"], [offline, "offline"], [unknown, "not checked yet"]].filter(([number]) => number > 0);
  const rest = others.map(([number, said]) => `${count(number, "host")} ${said}`).join(", ");
  return empty(`${count(right, "host")} ${right === 1 ? "is" : "are"} as Git says`,
    rest && h("p", null, "Nothing is known to be drifted on the others: ", rest, ". ", h("a", { href: "/" }, "See the fleet")),
    h("p", null, "When a check finds drift, it is shown here with its reason."));
}

function groups(entries) {
  const first = (list) => list.reduce((least, entry) => (entry.since && entry.since < least ? entry.since : least), "9");
  const waits = (list) => (list[0].policy === "alert_only" ? 0 : 1);
  const byOwner = Map.groupBy(entries, (entry) => `${entry.task ? "task" : "service"} ${ownerName(entry)}`);
  return [...byOwner.values()].sort((a, b) => waits(a) - waits(b) || (first(a) < first(b) ? -1 : 1));
}

function group(entries) {
  const [{ policy, task, service }] = entries;
  const name = ownerName(entries[0]);
  const hosts = new Set(entries.map((entry) => entry.agent)).size;
  return h("section", { key: `${task ? "task" : "service"} ${name}`, class: "card", "aria-label": name },
    h("div", { class: "card-head" },
      h("h2", null, ownerLink(entries[0])), policyTag(policy),
      h("span", { class: "quiet" }, service && "service; ", `${count(hosts, "host")}; ${policyMeaning(policy)}`),
      (task || service) && reconcileButton({ scope: task ? "task" : "service", name }, { class: "", "aria-label": `Reconcile ${name} everywhere …` })),
    h("ul", { class: "plain-list" }, entries.slice(0, MOST_LISTED).map(line)),
    entries.length > MOST_LISTED && h("p", null, `and ${driftCount(entries.slice(MOST_LISTED))} more; `, ownerLink(entries[0])));
}

function line(entry) {
  return h("li", { key: `${entry.agent} ${entry.step}` }, statusIcon(entry.status),
    h("div", null,
      h("p", null, agentLink(entry.agent), " ", h("code", null, entry.step), " ", h("span", { class: "quiet" }, statusName(entry.status), " ", standingSince(entry.since))),
      entry.reason && h("p", { class: "reason" }, entry.reason)),
    entry.policy === "alert_only" && store.agents.get(entry.agent)?.connected && approval(entry));
}

function approval(entry) {
  if (entry.service) return reconcileButton({ scope: "service", name: entry.service, agent: entry.agent }, { "aria-label": `Reconcile ${entry.service} on ${entry.agent} …` });
  return reconcileButton({ scope: "task", name: entry.task, agent: entry.agent, isApproval: true }, { "aria-label": `Approve ${entry.task} on ${entry.agent} …` });
}

// One agent: what is wrong with it and why, its tasks, its timeline.

import { pathOf, resource } from "./api.js";
import { diff, empty, facts, labelList, moment, nothingHere, notice, outOfDate, output, policyTag, standingSince, taskLink, trouble, waiting } from "./parts.js";
import { listen } from "./store.js";
import { reconcileButton } from "./reconcile.js";
import { icon, statusIcon } from "./icons.js";
import { servicesOf } from "./services.js";
import { timeline } from "./timeline.js";
import { holdings, shortCommit, statusName, whatNext } from "./words.js";
import { h } from "./view.js";

const ORDER = ["failed", "applied_but_drifted", "drifted", "applying", "unknown", "offline", "in_sync"];
const DRIFTED = ["failed", "applied_but_drifted", "drifted", "applying"];
const byWeight = (a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status);

export function agentPage(go, name, redraw) {
  const detail = resource(pathOf("agents", name), redraw);
  const history = timeline({ agent: name }, redraw);
  const stop = listen((kind, data) => {
    if (kind === "reloaded" || (kind === "agent" && data.name === name) || (kind === "event" && data.agent === name) || kind === "source") detail.refresh();
  });
  return {
    name: "agent",
    title: name,
    isReady: () => Boolean(detail.data || detail.problem),
    leave: () => { stop(); detail.stop(); history.leave(); },
    render() {
      if (detail.problem && !detail.data) return missing(name, detail.problem);
      if (!detail.data) return waiting(name);
      return [
        outOfDate(detail.problem),
        head(detail.data),
        summary(detail.data),
        h("div", { class: "columns" },
          h("section", { "aria-label": "Tasks" }, h("h2", null, "Tasks"), tasks(detail.data), servicesOf(detail.data)),
          h("section", { "aria-label": "Timeline" }, h("h2", null, "Timeline"), history.render({ withAgent: false }))),
      ];
    },
  };
}

function missing(name, problem) {
  if (problem.status !== 404) return trouble(`${name} cannot be read`, problem.message);
  return nothingHere(`No host is called ${name}`, h("p", null, problem.message), h("p", null, h("a", { href: "/" }, "Back to the fleet")));
}

function head(agent) {
  return h("header", { class: "headline with-action" },
    h("div", null,
      h("p", { class: "crumbs" }, h("a", { href: "/" }, "Fleet")),
      h("h1", null, statusIcon(agent.status), agent.name),
      h("p", { class: "under" }, h("strong", null, statusName(agent.status)), labelList(agent.labels))),
    reconcileButton({ scope: "agent", name: agent.name }, { "data-reconcile": true, disabled: !agent.connected }));
}

/** The answer to "why": in words, first. */
function summary(agent) {
  const { drifted, failed } = agent.tasks;
  const had = holdings(agent);
  const said = agent.error ? trouble("Nothing can be asked of this host", agent.error)
    : !agent.connected ? notice("offline", "This host is offline", h("p", null, "It goes on by itself with what it last heard; what it did meanwhile is told when it is back."))
    : failed + drifted > 0 ? null
    : agent.status === "in_sync" ? h("p", { class: "calm" }, statusIcon("in_sync"), had ? `${had} checked; this host is as Git says.` : "No task matches this host.")
    : null;
  return [
    said,
    facts(
      ["Connection", agent.connected ? ["open ", standingSince(agent.connected_since)] : ["offline; last seen ", moment(agent.last_seen)]],
      ["Held to", agent.commit ? ["commit ", h("code", null, shortCommit(agent.commit))] : "nothing yet"],
      ["Node type", agent.node_type],
      ["Version", agent.version]),
  ];
}

function tasks(agent) {
  if (agent.task_details.length === 0) {
    if (agent.services) return h("p", { class: "quiet" }, "No task matches this host; it is here for its services.");
    return empty("No task matches this host", h("p", null, "Tasks choose hosts by labels; see ", h("a", { href: "/tasks" }, "which tasks there are"), "."));
  }
  return h("div", { "data-list": true }, [...agent.task_details].sort(byWeight).map((task) => taskCard(agent, task)));
}

function taskCard(agent, task) {
  const isWrong = task.status !== "in_sync";
  const isApproval = task.policy === "alert_only" && ["drifted", "failed"].includes(task.status);
  // What is approved is what is read here.
  const seen = isApproval ? task.steps.filter((step) => DRIFTED.includes(step.status)).map((step) => ({ ...step, agent: agent.name, task: task.name, task_hash: task.task_hash })) : undefined;
  return h("details", { key: task.name, class: `card is-${task.status}`, initially: { open: isWrong } },
    h("summary", null, statusIcon(task.status), h("span", { class: "card-name" }, task.name), h("span", { class: "quiet" }, statusName(task.status)), policyTag(task.policy), icon("down")),
    isWrong && h("p", { class: "next" }, whatNext(task, agent.connected, Date.now())),
    h("ol", { class: "steps" }, task.steps.map((step) => stepLine(step, lastFailure(agent, task, step)))),
    h("p", { class: "card-actions" },
      taskLink(task.name, { "aria-label": `Task ${task.name}` }),
      isWrong && agent.connected && reconcileButton({ scope: "task", name: task.name, agent: agent.name, isApproval, seen }, { class: isApproval ? "primary" : "" })));
}

/** What the last apply printed, if it failed. */
function lastFailure(agent, task, step) {
  if (!["failed", "applied_but_drifted"].includes(step.status)) return null;
  const isOf = (event) => event.task === task.name && event.step === step.step && ["apply_finished", "check_failed"].includes(event.kind);
  return agent.events.find(isOf)?.output;
}

function stepLine(step, printed) {
  return h("li", { key: step.step, class: `step is-${step.status}` },
    h("p", { class: "step-head" }, statusIcon(step.status), h("code", null, step.step), h("span", null, statusName(step.status)), h("span", { class: "quiet" }, step.status === "in_sync" ? null : standingSince(step.since))),
    step.reason && h("p", { class: "reason" }, step.reason),
    step.diff && diff(step.diff),
    printed && printed.trim() !== step.reason?.trim() && output(printed, `Output of ${step.step}`),
    h("p", { class: "quiet small" }, "checked ", moment(step.last_checked), ", applied ", moment(step.last_applied)));
}

// Putting things right by hand: what would be done, the confirmation, and how it goes.

import { get, post } from "./api.js";
import { closeDialog, openDialog, renderDialog } from "./dialog.js";
import { statusIcon } from "./icons.js";
import { agentLink, command, diff, notice, output, trouble } from "./parts.js";
import { mayChange, own, reconcileChanged, store } from "./store.js";
import { count, driftCount, grouped, ownerName, statusName } from "./words.js";
import { h } from "./view.js";

/** More lines than this are counted, not listed. */
const MOST_LISTED = 50;

const STATES = {
  waiting: ["unknown", "Waits for its turn"],
  checking: ["applying", "Checking"],
  applying: ["applying", "Applying"],
  done: ["in_sync", "As Git says"],
  failed: ["failed", "Failed"],
  offline: ["offline", "Offline"],
};

/**
 * The button that opens the confirmation; without the right to change, how it is done elsewhere.
 * `asked.seen` are the drifted steps that the page shows, where it shows them.
 */
export function reconcileButton(asked, props = {}) {
  if (!store.session) return null;
  const label = asked.isApproval ? "Approve …" : asked.scope === "all" ? "Reconcile all …" : "Reconcile …";
  return h("button", { type: "button", class: "primary", ...props, onclick: () => (mayChange() ? ask(asked) : explain(asked)) }, label);
}

/** Every drifted step that `asked` is about, as far as it is known. */
function concerned(asked) {
  if (asked.seen) return asked.seen;
  const all = asked.agent ? store.drift.get(asked.agent) ?? []
    : asked.scope === "agent" ? store.drift.get(asked.name) ?? []
    : [...store.drift.values()].flat();
  return ["task", "service"].includes(asked.scope) ? all.filter((entry) => entry[asked.scope] === asked.name) : all;
}

const cliOf = (asked) => ["fluke reconcile", asked.scope, asked.name, asked.agent && `--agent ${asked.agent}`].filter(Boolean).join(" ");

function explain(asked) {
  openDialog(() => ({
    title: "Read-only here",
    body: [
      h("p", null, "This server takes changes through its local socket only. On the server's host, run:"),
      command(cliOf(asked)),
      h("p", { class: "quiet" }, "With api_tokens in the server's config, people sign in here and reconcile from this page."),
    ],
    actions: close("Close"),
  }));
}

function ask(asked) {
  // What is confirmed is what was seen, not what it has become in the meantime.
  const seen = concerned(asked);
  let problem = null;
  let isSent = false;

  const confirm = async () => {
    isSent = true;
    problem = null;
    renderDialog();
    try {
      const { id } = await post("/reconcile", requestOf(asked, seen));
      own.add(id);
      showProgress(id);
      // The stream tells the rest; this is for what it told before anybody listened.
      get(`/reconcile/${id}`).then((progress) => { reconcileChanged(progress); renderDialog(); }, () => {});
    } catch (failure) {
      problem = failure;
      isSent = false;
      renderDialog();
    }
  };

  openDialog(() => ({
    title: titleOf(asked),
    body: [
      problem && trouble("It was not begun", problem.message),
      h("p", null, sentenceOf(asked)),
      seen.length > 0 ? drifts(seen) : h("p", { class: "quiet" }, "Nothing is known to be drifted: everything is checked, and nothing is changed that is in sync."),
    ],
    actions: [
      h("button", { type: "button", key: "cancel", onclick: closeDialog }, "Cancel"),
      // What was seen is no longer so: there is something else to look at first.
      problem?.status === 409
        ? h("button", { type: "button", key: "again", class: "primary", onclick: closeDialog }, "Look again")
        : h("button", { type: "button", key: "confirm", class: "primary", disabled: isSent, onclick: confirm }, asked.isApproval ? "Approve" : "Reconcile"),
    ],
  }));
}

function requestOf({ scope, name, agent, isApproval }, seen) {
  const request = { scope, name, agent };
  if (isApproval) request.seen = seen.map(({ step, reason, task_hash }) => ({ step, reason, task_hash }));
  return request;
}

function titleOf({ scope, name, agent, isApproval }) {
  if (isApproval) return `Approve ${name} on ${agent}?`;
  if (scope === "all") return "Reconcile the whole fleet?";
  return `Reconcile ${name}${agent ? ` on ${agent}` : ""}?`;
}

function sentenceOf({ scope, agent, isApproval }) {
  if (isApproval) return "These steps are applied now, if they are still drifted for the reasons you see here:";
  if (scope === "all") return "Every connected host is checked; whatever drifted is applied, whatever its policy:";
  if (scope === "agent") return "All that this host is held to is checked, tasks and services; whatever drifted is applied, whatever its policy:";
  if (scope === "service") return `${agent ? "This host looks" : "Every connected host that should run it looks"} at the service; whatever drifted of it is put right, whatever its policy:`;
  return `The task is checked on ${agent ? "this host" : "every connected host that it matches"}; whatever drifted is applied, whatever its policy:`;
}

function drifts(entries) {
  return h("ul", { class: "plain-list" },
    entries.slice(0, MOST_LISTED).map((entry) => h("li", { key: `${entry.agent} ${ownerName(entry)} ${entry.step}` },
      statusIcon(entry.status),
      h("div", null,
        h("strong", null, entry.agent), ` ${ownerName(entry)} `, h("code", null, entry.step),
        h("p", { class: "said" }, entry.reason ?? statusName(entry.status)),
        entry.diff && diff(entry.diff)))),
    entries.length > MOST_LISTED && h("li", null, `and ${driftCount(entries.slice(MOST_LISTED))} more`));
}

/** How it goes, live. */
export function showProgress(id) {
  openDialog(() => {
    const progress = store.reconciles.get(id);
    if (!progress) return { title: "Reconciling", body: h("p", { role: "status" }, "It has begun."), actions: close("Let it run") };
    const worst = [...progress.agents].sort((a, b) => weight(b.state) - weight(a.state));
    const ended = progress.agents.filter((agent) => ["done", "failed", "offline"].includes(agent.state)).length;
    return {
      title: progress.isForgotten ? "The server was restarted" : progress.done ? (progress.failed ? "Something failed" : "Done") : "Reconciling",
      body: [
        h("progress", { max: Math.max(1, progress.agents.length), value: ended, "aria-label": "Hosts that are through" }),
        h("p", { class: "quiet", role: "status" }, `${grouped(ended)} of ${count(progress.agents.length, "host")}, asked for by ${progress.by}`),
        progress.agents.length === 0 && notice("in_sync", "No connected host is concerned"),
        progress.isForgotten && notice("drifted", "How it ended is not known", h("p", null, "The server was started anew meanwhile. How the hosts stand now, their pages tell.")),
        h("ul", { class: "plain-list" }, worst.slice(0, MOST_LISTED).map(agentProgress)),
        worst.length > MOST_LISTED && h("p", null, `and ${count(worst.length - MOST_LISTED, "more host")}`),
      ],
      actions: progress.done ? close("Close", "primary") : close("Let it run"),
    };
  });
}

const close = (label, look = "") => h("button", { type: "button", class: look, onclick: closeDialog }, label);

const weight = (state) => ["done", "offline", "waiting", "checking", "applying", "failed"].indexOf(state);

function agentProgress(agent) {
  const [sign, said] = STATES[agent.state] ?? ["unknown", agent.state];
  return h("li", { key: agent.name }, statusIcon(sign),
    h("div", null, h("strong", null, agentLink(agent.name, { onclick: closeDialog })), ` ${said}`,
      // Where a step failed, its own output says more.
      agent.error && !agent.steps.some((step) => step.outcome === "failure") && h("p", { class: "said" }, agent.error),
      agent.steps.map((step) => h("div", { key: `${ownerName(step)} ${step.step}` },
        h("p", null, ownerName(step), " ", h("code", null, step.step), ` ${outcomeName(step.outcome)}`),
        step.outcome && step.outcome !== "success" && step.output && output(step.output)))));
}

const OUTCOMES = { success: "put right", failure: "failed", applied_but_drifted: "applied, and still drifted", healed: "was right already", skipped: "skipped: a step before it failed", interrupted: "was interrupted" };
const outcomeName = (outcome) => (outcome ? OUTCOMES[outcome] ?? outcome : "is being applied …");

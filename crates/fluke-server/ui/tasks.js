// Tasks: what each is, where it is written, how it stands on every host.

import { pathOf, resource } from "./api.js";
import { empty, facts, nothingHere, outOfDate, output, policyTag, selectorList, trouble, waiting } from "./parts.js";
import { count, grouped, policyMeaning, STATUSES, statusName } from "./words.js";
import { icon, statusIcon } from "./icons.js";
import { listen } from "./store.js";
import { longList } from "./virtual.js";
import { reconcileButton } from "./reconcile.js";
import { timeline } from "./timeline.js";
import { h } from "./view.js";

const ROW = 44;
/** Counting thousands of agents is work: it is not asked for more often than this. */
const PAUSE = 2000;

export function tasksPage(go, _, redraw) {
  const tasks = resource("/tasks?agents=false", redraw, PAUSE);
  const stop = listen((kind) => ["agent", "source", "reloaded"].includes(kind) && tasks.refresh());
  return {
    name: "tasks",
    title: "Tasks",
    isReady: () => Boolean(tasks.data || tasks.problem),
    leave: () => { stop(); tasks.stop(); },
    render() {
      if (tasks.problem && !tasks.data) return trouble("Tasks cannot be read", tasks.problem.message, h("p", null, h("a", { href: "/source" }, "Source")));
      if (!tasks.data) return waiting("tasks");
      const list = [...tasks.data.tasks].sort((a, b) => STATUSES.indexOf(a.status) - STATUSES.indexOf(b.status));
      return [
        outOfDate(tasks.problem),
        h("header", { class: "headline" }, h("h1", null, count(list.length, "task"))),
        list.length === 0 && noTasks(),
        h("ul", { class: "cards", "data-list": true }, list.map(taskRow)),
      ];
    },
  };
}

function noTasks() {
  return empty("The repository has no task yet",
    h("p", null, "A task says what should be true on the hosts that its selector matches. Commit one:"),
    output(EXAMPLE, "A first task"));
}

const EXAMPLE = `task "motd" {
  selector {
    match_labels = { role = "web" }
  }

  shell "greeting" {
    check   = "grep -q fluke /etc/motd"
    command = "echo 'kept by fluke' > /etc/motd"
  }
}`;

function taskRow(task) {
  return h("li", { key: task.name, class: `card is-${task.status}` },
    h("div", { class: "card-head" },
      statusIcon(task.status), h("h2", null, h("a", { href: pathOf("tasks", task.name) }, task.name)), policyTag(task.policy),
      h("span", { class: "quiet" }, sayCounts(task.counts) || "no known host matches")),
    task.description && h("p", null, task.description),
    h("p", { class: "quiet small" }, icon("file"), ` ${task.defined}`));
}

const sayCounts = (counts) => STATUSES.filter((status) => counts[status]).map((status) => `${grouped(counts[status])} ${statusName(status).toLowerCase()}`).join(", ");

export function taskPage(go, name, redraw) {
  const task = resource(pathOf("tasks", name), redraw, 500);
  const history = timeline({ task: name }, redraw);
  const hosts = longList("Hosts");
  const stop = listen((kind, data) => (["agent", "source", "reloaded"].includes(kind) || data.task === name) && task.refresh());
  return {
    name: "task",
    title: name,
    isLong: true,
    isReady: () => Boolean(task.data || task.problem),
    leave: () => { stop(); task.stop(); history.leave(); },
    render() {
      if (task.problem && !task.data) {
        return task.problem.status === 404
          ? nothingHere(`No task is called ${name}`, h("p", null, task.problem.message), h("p", null, h("a", { href: "/tasks" }, "All tasks")))
          : trouble(`${name} cannot be read`, task.problem.message);
      }
      if (!task.data) return waiting(name);
      return [outOfDate(task.problem), draw(task.data, hosts, history)];
    },
  };
}

function draw(task, hosts, history) {
  const agents = [...task.agents].sort((a, b) => STATUSES.indexOf(a.status) - STATUSES.indexOf(b.status));
  return [
    h("header", { class: "headline with-action" },
      h("div", null,
        h("p", { class: "crumbs" }, h("a", { href: "/tasks" }, "Tasks")),
        h("h1", null, statusIcon(task.status), task.name),
        task.description && h("p", null, task.description),
        h("p", { class: "under" }, h("strong", null, statusName(task.status)), h("span", { class: "quiet" }, sayCounts(task.counts)))),
      reconcileButton({ scope: "task", name: task.name }, { "data-reconcile": true })),
    facts(
      ["Defined in", h("code", null, task.defined)],
      ["On drift", [policyMeaning(task.policy), " ", policyTag(task.policy)]],
      ["Selects", selectorList(task.selector)]),
    h("div", { class: "columns" },
      h("section", { "aria-label": "Steps and hosts" },
        h("h2", null, count(task.steps.length, "step")),
        h("ol", { class: "steps" }, task.steps.map(stepDefinition)),
        h("h2", null, count(agents.length, "host")),
        agents.length === 0 && empty("No known host matches", h("p", null, "Its selector asks for other labels than any host has.")),
        agents.length > 0 && hosts(agents, ROW, hostRow, { class: "rows" })),
      h("section", { "aria-label": "Timeline" }, h("h2", null, "Timeline"), history.render({ withTask: false }))),
  ];
}

const hostRow = (agent) => h("a", { class: `row is-${agent.status}`, href: pathOf("agents", agent.name) },
  h("span", null, statusIcon(agent.status)), h("span", { class: "row-name", title: agent.name }, agent.name), h("span", { class: "row-why quiet" }, statusName(agent.status)));

/** A step as the manifest says it. */
function stepDefinition(step) {
  const [kind, spec] = typeof step.spec === "string" ? [step.spec, {}] : Object.entries(step.spec)[0];
  return h("li", { key: step.address, class: "step" },
    h("p", { class: "step-head" }, h("code", null, step.address), h("span", { class: "quiet" }, kind)),
    h("dl", { class: "spec" }, Object.entries(spec).filter(([, value]) => value !== null).map(([field, value]) => [
      h("dt", { key: `${field} name` }, field),
      h("dd", { key: field }, h("pre", { tabindex: 0, role: "group", "aria-label": field }, typeof value === "string" ? value.trimEnd() : JSON.stringify(value))),
    ])));
}

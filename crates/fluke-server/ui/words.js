// How things are said: times, counts, statuses, events. Nothing here touches the document.

export const STATUSES = ["failed", "drifted", "applying", "offline", "unknown", "in_sync"];

const NAMES = {
  in_sync: "In sync",
  drifted: "Drifted",
  applying: "Applying",
  failed: "Failed",
  unknown: "Not checked yet",
  offline: "Offline",
  applied_but_drifted: "Applied, still drifted",
};

const MEANINGS = {
  remediate: "put right at once",
  remediate_and_alert: "put right at once; an alert is sent",
  alert_only: "an alert is sent; it waits for approval",
};

export const statusName = (status) => NAMES[status] ?? status;
export const policyMeaning = (policy) => MEANINGS[policy] ?? policy;
export const shortCommit = (commit) => (commit ? commit.slice(0, 9) : "none");

// Making one of these takes longer than using it a hundred times.
const NUMBERS = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const MOMENTS = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** `10,000` */
export const grouped = (number) => NUMBERS.format(number);

/** A moment to the second, as people here write it. */
export const exactly = (time) => MOMENTS.format(new Date(time));

/** The time of day; with the date where it is another day's. */
export function clock(time, now) {
  const moment = new Date(time);
  const isToday = moment.toDateString() === new Date(now).toDateString();
  return isToday ? CLOCK.format(moment) : exactly(time);
}

/** `1 host`, `2 hosts`, `10,000 hosts`. */
export function count(number, one, many = `${one}s`) {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

/** The task or the service that a drift is of; what services share is of none. */
export const ownerName = (entry) => entry.task ?? entry.service ?? "Names, routes and mesh";

/** `2 steps and 1 container`. */
export function driftCount(entries) {
  const sorts = Map.groupBy(entries, (entry) => (entry.task ? "step" : entry.service ? "container" : "part of the network"));
  return [...sorts].map(([sort, list]) => count(list.length, sort, sort.replace(/^\w+/, "$&s"))).join(" and ");
}

/** What a host is held to: `3 tasks and 1 service`; nothing where nothing matches it. */
export function holdings({ tasks, services }) {
  const parts = [[tasks.total, "task"], [services?.total ?? 0, "service"]].filter(([number]) => number > 0);
  return parts.map(([number, what]) => count(number, what)).join(" and ");
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** A span of seconds in its largest unit: `3 min`. */
export function span(seconds) {
  for (const [size, unit] of UNITS) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return "0 s";
}

/** `3 min ago`, `in 20 s`, `just now`. */
export function ago(time, now) {
  const seconds = (now - Date.parse(time)) / 1000;
  if (seconds < -1) return `in ${span(-seconds)}`;
  return seconds < 5 ? "just now" : `${span(seconds)} ago`;
}

/** `for 3 min`. */
export const since = (time, now) => `for ${span(Math.max(1, (now - Date.parse(time)) / 1000))}`;

/** How long something took. */
export function took(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : span(ms / 1000);
}

/** A setting as manifests write it, with all its digits: `1500ms`, `10s`, `1h30m`. */
export function asWritten(ms) {
  if (ms === 0 || ms % 1000 !== 0) return `${ms}ms`;
  const seconds = ms / 1000;
  const parts = [[Math.floor(seconds / 3600), "h"], [Math.floor(seconds / 60) % 60, "m"], [seconds % 60, "s"]];
  return parts.filter(([number]) => number > 0).map(([number, unit]) => `${number}${unit}`).join("");
}

const SAID = {
  commit_accepted: () => "Commit in force",
  commit_rejected: () => "Commit rejected",
  source_unreachable: () => "Repository cannot be read",
  source_recovered: () => "Repository can be read again",
  agent_connected: () => "Connected",
  agent_disconnected: () => "Disconnected",
  agent_forgotten: () => "Forgotten: it will not come back",
  agent_refused: () => "Agent refused",
  caller_refused: () => "Caller refused",
  drift_detected: () => "Drift found",
  drift_resolved: () => "Drift went away by itself",
  apply_started: () => "Apply began",
  apply_finished: (event) => ENDED[event.outcome] ?? "Apply ended",
  apply_skipped: (event) => (event.outcome === "healed" ? "Already right when its turn came" : "Not applied: a step before it failed"),
  check_failed: () => "Check could not tell",
  check_recovered: () => "Check can tell again",
  reconcile_requested: () => "Reconcile asked for",
  reconcile_finished: (event) => (event.outcome === "failure" ? "Reconcile failed" : "Reconcile done"),
  replica_moved: () => "Replica moved here",
  alert_failed: () => "Alert not delivered",
  events_lost: () => "Events were lost",
};

const ENDED = {
  success: "Put right",
  failure: "Apply failed",
  applied_but_drifted: "Applied, and still drifted",
  interrupted: "Apply was interrupted",
};

export const KINDS = Object.keys(SAID);
export const kindName = (kind) => kind.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());

/** An event in a few words. */
export const eventTitle = (event) => (SAID[event.kind] ?? (() => kindName(event.kind)))(event);

const BAD = new Set(["commit_rejected", "source_unreachable", "agent_refused", "caller_refused", "check_failed", "alert_failed", "events_lost"]);

/** Whether an event is good, bad, a change, or neither: the colour of its dot. */
export function eventTone(event) {
  if (BAD.has(event.kind)) return "failed";
  if (event.kind === "drift_detected") return "drifted";
  if (event.outcome && !["success", "healed"].includes(event.outcome)) return "failed";
  if (["apply_started", "reconcile_requested"].includes(event.kind)) return "applying";
  if (["apply_finished", "drift_resolved", "check_recovered", "source_recovered", "commit_accepted", "reconcile_finished"].includes(event.kind)) return "in_sync";
  return "plain";
}

const TRIGGERS = {
  commit: "a commit changed what it should be",
  placement: "replicas moved",
  poll: "its regular check",
  connect: "it connected",
  watch: "it saw a change",
  retry: "another try was due",
  offline: "repaired while the server was away",
  manual: "somebody asked",
};

export const triggerName = (trigger) => TRIGGERS[trigger] ?? trigger;

/** What happens next with a task that is not in sync, on one host. */
export function whatNext(task, connected, now) {
  if (!connected) return "The host is offline: nothing can be done from here until it is back. What its policy lets it put right, it does alone.";
  if (task.status === "applying") return "It is being put right now.";
  if (task.retry_at) return `It failed ${count(task.failures, "time")} in a row; the next try is ${ago(task.retry_at, now)}.`;
  if (task.policy === "alert_only") return "Its policy is alert_only: it waits for approval.";
  return "Its policy lets fluke put it right; that is due at the next check.";
}

// What is known of the fleet, kept up to date by the stream. Pages read it and never write.

import { get, resource } from "./api.js";
import { keep, kept } from "./kept.js";
import { STATUSES } from "./words.js";

/** Drift that is fetched with its reasons; beyond that there are counts. */
const MOST_DRIFT = 1000;
const DRIFT_PAUSE = 1000;
/** Reconciles of others that are remembered. */
const MOST_RECONCILES = 20;
/** Pauses between tries to read everything, in milliseconds. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
const OWN = "fluke-reconciles";

export const store = {
  session: null,
  /** By name; null until they are known. */
  agents: null,
  /** Every agent, by name in order. */
  sorted: [],
  /** Grows with every change of an agent. */
  version: 0,
  /** Grows when agents come, go or change their labels. */
  membership: 0,
  /** How many agents stand how. */
  counts: null,
  /** Drifted steps by agent. */
  drift: new Map(),
  driftIsKnown: false,
  driftCount: 0,
  driftIsCut: false,
  driftProblem: null,
  source: null,
  reconciles: new Map(),
  /** Why everything cannot be read now. */
  problem: null,
  /** Whether the server has been replaced by another version since this page was loaded. */
  isOutdated: false,
  /** `connecting`, `on` or `off`. */
  live: "connecting",
};

let notify = () => {};
const listeners = new Set();
let drifts = null;
let firstVersion = null;
/** Agents came or went, and the lists do not say so yet. */
let isUnsorted = false;
/** What is heard while everything is being read: newer than what is read, perhaps. */
let backlog = null;
let isDueAgain = false;

/** `changed` is called whenever anything is new. */
export function onChange(changed) {
  notify = changed;
}

/** Calls `heard` with every message of the stream until the returned function is called. */
export function listen(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

const tell = (kind, data) => listeners.forEach((heard) => heard(kind, data));

/** Reads everything, at the start and after a gap; does not give up. Pages are told `reloaded`. */
export async function load() {
  isDueAgain = true;
  if (backlog) return;
  backlog = [];
  drifts ??= resource(`/drift?limit=${MOST_DRIFT}`, driftArrived, DRIFT_PAUSE);
  drifts.refresh();
  let pause = FIRST_PAUSE;
  while (isDueAgain) {
    isDueAgain = false;
    try {
      take(await Promise.all([get("/agents"), get("/session"), get("/source")]));
    } catch (problem) {
      store.problem = problem;
      notify();
      isDueAgain = true;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }
  const missed = backlog;
  backlog = null;
  missed.forEach(([kind, data]) => changed(kind, data));
  await Promise.all(own.ids.map(lookAfter));
  tell("reloaded", {});
  notify();
}

function take([{ agents }, session, source]) {
  store.agents = new Map(agents.map((agent) => [agent.name, agent]));
  firstVersion ??= session.version;
  store.isOutdated ||= session.version !== firstVersion;
  Object.assign(store, { session, source, problem: null });
  isUnsorted = true;
}

function driftArrived() {
  store.driftProblem = drifts.problem;
  if (drifts.data) {
    store.drift = Map.groupBy(drifts.data.drift, (entry) => entry.agent);
    store.driftIsKnown = true;
    store.driftCount = drifts.data.drift.length;
    store.driftIsCut = Boolean(drifts.data.next);
  }
  notify();
}

/** Brings the lists up to date: before they are drawn, however many messages came. */
export function tidy() {
  if (!isUnsorted) return;
  isUnsorted = false;
  store.sorted = [...store.agents.keys()].sort().map((name) => store.agents.get(name));
  store.counts = countByStatus(store.sorted);
  store.version += 1;
  store.membership += 1;
}

/** Takes in one message of the stream. */
export function hear(kind, data) {
  backlog?.push([kind, data]);
  changed(kind, data);
  tell(kind, data);
  notify();
}

function changed(kind, data) {
  if (kind === "agent" && store.agents) agentChanged(data);
  if (kind === "source") store.source = data;
  if (kind === "reconcile") reconcileChanged(data);
}

function agentChanged(agent) {
  const before = store.agents.get(agent.name);
  if (agent.gone) store.agents.delete(agent.name);
  else store.agents.set(agent.name, agent);
  if (before && !agent.gone && !isUnsorted) replace(before, agent);
  else isUnsorted = true;
  if (isWrong(agent) || (before && isWrong(before))) drifts?.refresh();
}

function replace(before, agent) {
  store.sorted[indexOf(agent.name)] = agent;
  store.counts[before.status] -= 1;
  store.counts[agent.status] += 1;
  store.version += 1;
  if (JSON.stringify(before.labels) !== JSON.stringify(agent.labels)) store.membership += 1;
}

const isWrong = (agent) => !agent.gone && (agent.status === "failed" || [agent.tasks, agent.services].some((counts) => counts && counts.drifted + counts.failed > 0));

/** By halves: the list is in order. */
function indexOf(name) {
  let low = 0;
  let high = store.sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (store.sorted[middle].name < name) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Ids of reconciles that were asked for from this tab, kept over a reload. */
export const own = {
  ids: (kept(OWN, "sessionStorage") ?? "").split(" ").filter(Boolean),
  add(id) {
    own.ids = [...own.ids, id].slice(-5);
    keep(OWN, own.ids.join(" "), "sessionStorage");
  },
};

export function reconcileChanged(progress) {
  // What is done stays so: an answer may come later than what the stream told after it.
  if (store.reconciles.get(progress.id)?.done) return;
  store.reconciles.delete(progress.id);
  store.reconciles.set(progress.id, progress);
  const others = [...store.reconciles.keys()].filter((id) => !own.ids.includes(id));
  others.slice(0, -MOST_RECONCILES).forEach((id) => store.reconciles.delete(id));
}

/** A reconcile of ours whose end may have been told while nobody listened. */
async function lookAfter(id) {
  if (store.reconciles.get(id)?.done) return;
  try {
    reconcileChanged(await get(`/reconcile/${id}`));
  } catch (problem) {
    const known = store.reconciles.get(id);
    if (problem.status === 404 && known) reconcileChanged({ ...known, done: true, isForgotten: true });
  }
}

export function setLive(live) {
  if (store.live === live) return;
  store.live = live;
  notify();
}

/** How many agents stand how. */
export function countByStatus(agents) {
  const counts = Object.fromEntries(STATUSES.map((status) => [status, 0]));
  for (const agent of agents) counts[agent.status] += 1;
  return counts;
}

/** Looks after the session: it lives on while it is used, and a stream alone is no use. */
export async function renew() {
  const session = await get("/session").catch(() => null);
  if (session) store.session = session;
}

export const mayChange = () => Boolean(store.session?.may_change);

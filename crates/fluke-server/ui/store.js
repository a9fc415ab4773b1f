// What is known of the fleet, kept up to date by the stream. Pages read it and never write.

import { get, resource } from "./api.js";
import { STATUSES } from "./words.js";

/** Drift that is fetched with its reasons; beyond that there are counts. */
const MOST_DRIFT = 1000;
/** Reconciles that are remembered. */
const MOST_RECONCILES = 20;

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
  source: null,
  reconciles: new Map(),
  /** Ids of reconciles that were asked for from here. */
  own: new Set(),
  problem: null,
  /** Whether the server has been replaced by another version since this page was loaded. */
  isOutdated: false,
  /** `connecting`, `on` or `off`. */
  live: "connecting",
};

let notify = () => {};
const listeners = new Set();
let drifts = null;

/** `changed` is called whenever anything is new. */
export function onChange(changed) {
  notify = changed;
}

/** Calls `heard` with every message of the stream until the returned function is called. */
export function listen(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

/** Fetches everything, at the start and after a gap. */
export async function load() {
  drifts ??= resource(`/drift?limit=${MOST_DRIFT}`, driftArrived, 1000);
  drifts.refresh();
  try {
    const [agents, session, source] = await Promise.all([get("/agents"), get("/session"), get("/source")]);
    store.agents = new Map(agents.agents.map((agent) => [agent.name, agent]));
    store.isOutdated = Boolean(store.session && store.session.version !== session.version);
    Object.assign(store, { session, source, problem: null });
    sort();
  } catch (problem) {
    store.problem = problem;
  }
  notify();
}

function driftArrived() {
  if (!drifts.data) return;
  const byAgent = new Map();
  for (const entry of drifts.data.drift) {
    if (!byAgent.has(entry.agent)) byAgent.set(entry.agent, []);
    byAgent.get(entry.agent).push(entry);
  }
  store.drift = byAgent;
  store.driftIsKnown = true;
  store.driftCount = drifts.data.drift.length;
  store.driftIsCut = Boolean(drifts.data.next);
  notify();
}

function sort() {
  const names = [...store.agents.keys()].sort();
  store.sorted = names.map((name) => store.agents.get(name));
  store.counts = countByStatus(store.sorted);
  store.version += 1;
  store.membership += 1;
}

/** Takes in one message of the stream. */
export function hear(kind, data) {
  if (kind === "agent") agentChanged(data);
  if (kind === "source") store.source = data;
  if (kind === "reconcile") reconcileChanged(data);
  for (const heard of listeners) heard(kind, data);
  notify();
}

function agentChanged(agent) {
  if (!store.agents) return;
  const before = store.agents.get(agent.name);
  if (agent.gone) store.agents.delete(agent.name);
  else store.agents.set(agent.name, agent);
  if (before && !agent.gone) replace(before, agent);
  else sort();
  if (isWrong(agent) || (before && isWrong(before))) drifts?.refresh();
}

function replace(before, agent) {
  store.sorted[indexOf(agent.name)] = agent;
  store.counts[before.status] -= 1;
  store.counts[agent.status] += 1;
  store.version += 1;
  if (JSON.stringify(before.labels) !== JSON.stringify(agent.labels)) store.membership += 1;
}

const isWrong = (agent) => !agent.gone && agent.tasks.drifted + agent.tasks.failed > 0;

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

export function reconcileChanged(progress) {
  store.reconciles.delete(progress.id);
  store.reconciles.set(progress.id, progress);
  if (store.reconciles.size > MOST_RECONCILES) {
    store.reconciles.delete(store.reconciles.keys().next().value);
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

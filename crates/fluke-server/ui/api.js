// Calls of the HTTP API. An error is a Problem: what failed and what to do, in the server's words.

const ROOT = "/api/v1";

class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The path of a thing by its name; names may contain `/`. */
export const pathOf = (kind, name) => `/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;

export const get = (path) => call(path, {});

export function post(path, body) {
  return call(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(ROOT + path, { credentials: "same-origin", ...options });
  } catch {
    throw new Problem(0, "The server does not answer. Is it running, and is the network up?");
  }
  if (response.ok) return response.json();
  if (response.status === 401) signIn();
  throw new Problem(response.status, await detailOf(response));
}

async function detailOf(response) {
  const problem = await response.json().catch(() => null);
  return problem?.detail ?? `The server answered with status ${response.status}.`;
}

/** Leads to the sign-in page, and from there back to here. */
export function signIn() {
  const here = location.pathname + location.search;
  location.assign(`/sign-in?next=${encodeURIComponent(here)}`);
}

/** Pauses before another try, in milliseconds. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15_000;

/**
 * Something that is fetched, and fetched again when it changed: at most once at a time and every
 * `pause` milliseconds. A failure is told beside what was there before, and tried again.
 */
export function resource(path, changed, pause = 250) {
  let isRunning = false;
  let isDue = false;
  let failures = 0;
  const own = { data: null, problem: null, refresh, stop: () => { own.isStopped = true; }, isStopped: false };

  async function once() {
    try {
      own.data = await get(path);
      own.problem = null;
      failures = 0;
    } catch (problem) {
      own.problem = problem;
      if (problem.status === 404) own.data = null;
      else isDue = true;
      failures += 1;
    }
    if (!own.isStopped) changed();
  }

  async function refresh() {
    isDue = true;
    if (isRunning) return;
    isRunning = true;
    while (isDue && !own.isStopped) {
      isDue = false;
      await once();
      const wait = failures ? Math.min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE) : pause;
      await new Promise((done) => setTimeout(done, wait));
    }
    isRunning = false;
  }

  refresh();
  return own;
}

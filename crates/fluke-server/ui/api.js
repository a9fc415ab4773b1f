// Calls of the HTTP API. An error is a Problem: what failed and what to do, in the server's words.

const ROOT = "/api/v1";

export class Problem extends Error {
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

/**
 * Something that is fetched, and fetched again when it changed: at most once at a time and every
 * `pause` milliseconds.
 */
export function resource(path, changed, pause = 250) {
  let running = false;
  let due = false;
  const own = { data: null, problem: null, refresh, stop: () => { own.stopped = true; }, stopped: false };

  async function refresh() {
    due = true;
    if (running) return;
    running = true;
    while (due && !own.stopped) {
      due = false;
      try {
        own.data = await get(typeof path === "function" ? path() : path);
        own.problem = null;
      } catch (problem) {
        own.problem = problem;
      }
      if (!own.stopped) changed();
      await new Promise((done) => setTimeout(done, pause));
    }
    running = false;
  }

  refresh();
  return own;
}

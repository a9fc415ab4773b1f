// The stream of changes, and what to do when it breaks.

import { get, signIn } from "./api.js";
import { hear, load, setLive } from "./store.js";

const KINDS = ["agent", "event", "source", "reconcile"];
/** After a gap tabs fetch everything anew, spread over this many milliseconds. */
const SPREAD = 1500;
const RETRY = 3000;

let wasOpen = false;

export function connect() {
  const stream = new EventSource("/api/v1/stream");
  stream.onopen = () => {
    setLive("on");
    if (wasOpen) setTimeout(load, Math.random() * SPREAD);
    wasOpen = true;
  };
  for (const kind of KINDS) {
    stream.addEventListener(kind, (message) => hear(kind, JSON.parse(message.data)));
  }
  stream.addEventListener("lagged", () => {
    stream.close();
    connect();
  });
  stream.onerror = () => {
    setLive("off");
    // A browser tries again by itself unless it was told to go away.
    if (stream.readyState === EventSource.CLOSED) setTimeout(again, RETRY);
  };
}

async function again() {
  const session = await get("/session").catch(() => null);
  if (session && session.tokens_configured && !session.signed_in) signIn();
  else connect();
}

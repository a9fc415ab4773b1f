// The stream of changes, and what to do when it breaks.

import { get, signIn } from "./api.js";
import { hear, load, setLive } from "./store.js";

const KINDS = ["agent", "service", "event", "source", "reconcile"];
const RETRY = 3000;
/** The server gives a sign of life every 15 seconds. */
const SILENCE = 40_000;
/** After a gap tabs fetch everything anew, spread over this many milliseconds. */
const SPREAD = 1500;

let wasOpen = false;

export function connect() {
  const stream = new EventSource("/api/v1/stream");
  let silence = null;

  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => end(connect), SILENCE);
  };
  const end = (then) => {
    clearTimeout(silence);
    stream.close();
    setLive("off");
    then();
  };

  stream.onopen = async () => {
    heard();
    if (wasOpen) await new Promise((done) => setTimeout(done, Math.random() * SPREAD));
    wasOpen = true;
    // What is fetched now is not older than the stream, and what the stream tells meanwhile is kept.
    await load();
    if (stream.readyState === EventSource.OPEN) setLive("on");
  };
  stream.addEventListener("ping", heard);
  for (const kind of KINDS) {
    stream.addEventListener(kind, (message) => {
      heard();
      hear(kind, JSON.parse(message.data));
    });
  }
  stream.addEventListener("lagged", () => end(connect));
  stream.onerror = () => {
    setLive("off");
    // A browser tries again by itself unless it was told to go away.
    if (stream.readyState === EventSource.CLOSED) end(() => setTimeout(again, RETRY));
  };
}

async function again() {
  const session = await get("/session").catch(() => null);
  if (session && session.tokens_configured && !session.signed_in) return signIn();
  // Without a stream there are the lists at least.
  if (session) load();
  connect();
}

// The stream of /api/live: the server's description, the last 15 minutes, and a sample every second.
// Dispatches `state`, `server`, `history` and `sample`.

import { open } from "./api.js";

const MOST_SAMPLES = 900;
const PAUSES_MS = [1000, 2000, 4000, 8000, 10_000];
const SILENCE_MS = 10_000; // Reconnect after ten missed samples.
// How long a hidden page keeps its stream: browsers open only six connections to a server for all of its
// pages.
const UNSEEN_MS = 30_000;

export class Live extends EventTarget {
  server = null;
  samples = [];
  state = "connecting";
  #failures = 0;
  #run = null;
  #silence = 0;
  #timer = 0;
  #unseen = 0;

  constructor() {
    super();
    document.addEventListener("visibilitychange", () => this.#pauseUnseen());
  }

  get last() {
    return this.samples.at(-1);
  }

  may(scope) {
    return this.server.scopes.includes(scope) || this.server.scopes.includes("all");
  }

  start() {
    this.stop();
    if (this.state === "paused") this.#become("connecting");
    this.#pauseUnseen();
    const run = (this.#run = new AbortController());
    this.#read(run.signal).then(
      () => this.#lost(run),
      (error) => this.#lost(run, error),
    );
  }

  stop() {
    this.#run?.abort();
    this.#run = null;
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
  }

  forget() {
    this.stop();
    this.server = null;
    this.samples = [];
    this.#become("signed out");
  }

  // Reconnects immediately if waiting to do so.
  hurry() {
    if (this.state === "reconnecting" || this.state === "paused") this.start();
  }

  #pauseUnseen() {
    clearTimeout(this.#unseen);
    if (document.hidden) this.#unseen = setTimeout(() => this.#run && this.#pause(), UNSEEN_MS);
  }

  #pause() {
    this.stop();
    this.#become("paused");
  }

  async #read(signal) {
    this.#hear();
    const response = await open("GET", "/api/live", { signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parse = parser((event, data) => this.#take(event, JSON.parse(data)));
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      this.#hear();
      parse(value);
    }
  }

  #take(event, body) {
    if (event === "server") this.server = body;
    else if (event === "history") this.samples = body.slice(-MOST_SAMPLES);
    else if (event === "sample") {
      this.#failures = 0;
      this.samples.push(body);
      if (this.samples.length > MOST_SAMPLES) this.samples.shift();
    } else return;
    if (event === "sample") this.#become("live");
    this.dispatchEvent(new Event(event));
  }

  #hear() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#run?.abort(), SILENCE_MS);
  }

  #lost(run, error) {
    if (run !== this.#run) return;
    this.stop();
    if (error?.status === 401 || error?.status === 403) {
      this.error = error;
      return this.#become("locked");
    }
    const pause_ms = PAUSES_MS[Math.min(this.#failures++, PAUSES_MS.length - 1)];
    this.#become("reconnecting");
    this.#timer = setTimeout(() => this.start(), pause_ms);
  }

  #become(state) {
    if (this.state === state && state !== "locked") return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}

// Parser for the part of the event-stream format that the server uses. Returns a function that takes text in
// pieces of any length.
export function parser(tell) {
  let rest = "";
  let event = "message";
  let data = [];
  return (text) => {
    const lines = (rest + text).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) tell(event, data.join("\n"));
        event = "message";
        data = [];
      } else if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5));
    }
  };
}

// The client of the playground: one WebSocket of Encke's own dialect. It answers pings until it falls silent. Events: `state`, `frame`.

import { plural } from "./format.js";

const MOST_FRAMES = 500;

const WAITS = " The session waits for you to come back.";
const IS_GONE = " The session is gone.";

const MORE = {
  4000: WAITS,
  4007: WAITS,
  4102: ` It wants a token; or this page's origin, ${location.origin}, in auth.origins.`,
};

export class Player extends EventTarget {
  session = null; // { id, resume, seq }, and `isHere` when the server of this page has shown it.
  token = ""; // As typed.
  frames = []; // { number, at_ms, way, text }
  says = "Not connected.";
  isSilent = false;
  #socket = null;
  #number = 0;

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  get isConnecting() {
    return this.#socket?.readyState === WebSocket.CONNECTING;
  }

  // As a new client.
  connect(url) {
    this.session = null;
    this.#open(url, {});
  }

  // For the session that it had, with what it has.
  comeBack(url) {
    const { resume, seq } = this.session;
    this.#open(url, { resume, seq });
  }

  send(text) {
    if (!this.isOpen || this.isSilent) return;
    this.#socket.send(text);
    this.#note("sent", text);
  }

  // A page cannot pull a cable: it closes the WebSocket, which for the server is no end of the session.
  cut() {
    const what = this.isOpen ? "Cut." : "Cut, before it was open.";
    this.#leave().close();
    this.#note("note", "the connection was cut here");
    this.#become(`${what}${this.session ? WAITS : ""}`);
  }

  // The connection stays open, and nothing is said on it.
  silence() {
    this.isSilent = true;
    this.#note("note", "silent from now on: pings are not answered");
    this.#become("Silent. The server has not noticed yet.");
  }

  // The server no longer has the session.
  lose() {
    if (this.says.endsWith(WAITS)) this.#become(this.says.replace(WAITS, IS_GONE));
  }

  // Ends the session if it is connected, and keeps nothing of it: neither token nor frames.
  forget() {
    const isOpen = this.isOpen;
    const socket = this.#leave();
    if (isOpen) socket.send('{"close":{}}');
    socket?.close();
    Object.assign(this, { session: null, token: "", frames: [], isSilent: false });
    this.dispatchEvent(new Event("frame"));
    this.#become("Not connected.");
  }

  #open(url, { resume, seq }) {
    const query = { heartbeat: "message", ...(this.token && { token: this.token }), ...(resume && { resume, seq }) };
    let socket;
    try {
      socket = new WebSocket(`${url}?${new URLSearchParams(query)}`);
    } catch (error) {
      // As on a page that came by https, of a URL that is not wss.
      return this.#become(`Not connected: ${error.message}${this.session ? WAITS : ""}`);
    }
    this.#socket = socket;
    this.isSilent = false;
    this.#note("note", resume ? `coming back with seq ${seq}` : "connecting");
    this.#become("Connecting.");
    socket.onopen = () => this.#become("Connected.");
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = ({ code, reason }) => {
      this.#leave();
      this.#note("note", `closed: ${code}${reason && ` ${reason}`}`);
      this.#become(
        `Closed by ${code === 1006 ? "a failure, or never open" : "the server"}: ${code}${reason && ` (${reason})`}.${MORE[code] ?? ""}`,
      );
    };
  }

  // Returns what it has left.
  #leave() {
    const socket = this.#socket;
    if (socket) socket.onopen = socket.onmessage = socket.onclose = null;
    this.#socket = null;
    return socket;
  }

  #receive(data) {
    if (typeof data !== "string") return this.#note("received", `binary, ${plural(data.size, "byte")}`);
    this.#note("received", data);
    const { hello, message, gap, ping } = objectOf(data);
    if (typeof hello?.session === "string") this.#greeted(hello);
    if (!this.session) return;
    const seq = (message ?? gap)?.seq;
    if (Number.isInteger(seq)) this.session.seq = seq;
    if (ping) this.send(JSON.stringify({ pong: { seq: this.session.seq } }));
  }

  #greeted({ session: id, resume, seq, recovered }) {
    const cameBack = this.session !== null;
    this.session = { id, resume, seq };
    if (!cameBack) return this.#become("Connected, in a new session.");
    this.#become(
      recovered
        ? "Recovered: it is the same session, and nothing was missed."
        : "Not recovered: the session was gone, and this is a new one.",
    );
  }

  #note(way, text) {
    this.frames.push({ number: ++this.#number, at_ms: Date.now(), way, text });
    if (this.frames.length > MOST_FRAMES) this.frames.shift();
    this.dispatchEvent(new Event("frame"));
  }

  #become(says) {
    this.says = says;
    this.dispatchEvent(new Event("state"));
  }
}

// The server at the other end need not be Encke. A frame that is no object has no effect.
function objectOf(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

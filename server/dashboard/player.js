// The playground's client: one WebSocket in the `json` dialect. It answers pings unless told to stop.
// Dispatches `state` and `frame`.

import { plural } from "./format.js";

const MOST_FRAMES = 500;

const WAITS = " The session waits for you to reconnect.";
const HAS_ENDED = " The session has ended.";

const MORE = {
  4000: WAITS,
  4007: WAITS,
  4102: ` The server requires a token, or this page's origin (${location.origin}) in auth.origins.`,
};

export class Player extends EventTarget {
  session = null; // { id, resume, seq, isHere: known to the server of this page }
  token = ""; // As typed by the user.
  frames = []; // { number, at_ms, way, text }
  status = "Not connected.";
  isSilent = false;
  #socket = null;
  #number = 0;

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  get isConnecting() {
    return this.#socket?.readyState === WebSocket.CONNECTING;
  }

  // Connects as a new client.
  connect(url) {
    this.session = null;
    this.#open(url, {});
  }

  // Reconnects to resume the session.
  reconnect(url) {
    const { resume, seq } = this.session;
    this.#open(url, { resume, seq });
  }

  send(text) {
    if (!this.isOpen || this.isSilent) return;
    this.#socket.send(text);
    this.#note("sent", text);
  }

  // Simulates a connection loss. A page can only close the WebSocket, but this does not end the session.
  drop() {
    const what = this.isOpen ? "Connection dropped." : "Connection dropped before it was open.";
    this.#leave().close();
    this.#note("note", "connection dropped by this page");
    this.#become(`${what}${this.session ? WAITS : ""}`);
  }

  // Keeps the connection open, but sends nothing.
  stopAnswering() {
    this.isSilent = true;
    this.#note("note", "silent from now on: pings are not answered");
    this.#become("Silent. The server has not noticed yet.");
  }

  // Handles a session that the server no longer has.
  sessionEnded() {
    if (this.status.endsWith(WAITS)) this.#become(this.status.replace(WAITS, HAS_ENDED));
  }

  // Ends the session if the player is connected, and forgets everything, including the token and the frames.
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
      // This happens, for example, if a page loaded over https connects to a URL that is not wss.
      return this.#become(`Not connected: ${error.message}${this.session ? WAITS : ""}`);
    }
    this.#socket = socket;
    this.isSilent = false;
    this.#note("note", resume ? `resuming with seq ${seq}` : "connecting");
    this.#become("Connecting.");
    socket.onopen = () => this.#become("Connected.");
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = ({ code, reason }) => {
      this.#leave();
      this.#note("note", `closed: ${code}${reason && ` ${reason}`}`);
      this.#become(
        `Closed by ${code === 1006 ? "a failure, or never opened" : "the server"}: ${code}${reason && ` (${reason})`}.${MORE[code] ?? ""}`,
      );
    };
  }

  // Returns the socket, detached from the player.
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
    const isReconnect = this.session !== null;
    this.session = { id, resume, seq };
    if (!isReconnect) return this.#become("Connected, in a new session.");
    this.#become(
      recovered
        ? "Recovered: the same session, and no messages were lost."
        : "Not recovered: the session had ended, and this is a new one.",
    );
  }

  #note(way, text) {
    this.frames.push({ number: ++this.#number, at_ms: Date.now(), way, text });
    if (this.frames.length > MOST_FRAMES) this.frames.shift();
    this.dispatchEvent(new Event("frame"));
  }

  #become(status) {
    this.status = status;
    this.dispatchEvent(new Event("state"));
  }
}

// Parses a frame. A frame that is not an object has no effect, because the server at the other end may not be
// Encke.
function objectOf(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

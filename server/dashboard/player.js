// The client of the playground: one WebSocket of Encke's own dialect. It answers pings until it falls silent. Events: `state`, `frame`.

const MOST_FRAMES = 500;

const MORE = {
  4000: " The session waits for you to come back.",
  4007: " The session waits for you to come back.",
  4102: ` It wants a token; or this page's origin, ${location.origin}, in auth.origins.`,
};

export class Player extends EventTarget {
  session = null; // { id, resume, seq }
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
  connect(url, { token }) {
    this.session = null;
    this.#open(url, { token });
  }

  // For the session that it had, with what it has.
  comeBack(url, { token }) {
    const { resume, seq } = this.session;
    this.#open(url, { token, resume, seq });
  }

  send(text) {
    if (!this.isOpen || this.isSilent) return;
    this.#socket.send(text);
    this.#note("sent", text);
  }

  // A page cannot pull a cable: it closes the WebSocket, which for the server is no end of the session.
  cut() {
    const socket = this.#socket;
    this.#leave();
    socket.close();
    this.#note("note", "the connection was cut here");
    this.#become("Cut. The session waits for you to come back.");
  }

  // The connection stays open, and nothing is said on it.
  silence() {
    this.isSilent = true;
    this.#note("note", "silent from now on: pings are not answered");
    this.#become("Silent. The server has not noticed yet.");
  }

  #open(url, { token, resume, seq }) {
    const query = { heartbeat: "message", ...(token && { token }), ...(resume && { resume, seq }) };
    const socket = (this.#socket = new WebSocket(`${url}?${new URLSearchParams(query)}`));
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

  #leave() {
    if (this.#socket) this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket = null;
  }

  #receive(text) {
    this.#note("received", text);
    const { hello, message, gap, ping } = JSON.parse(text);
    if (hello) this.#greeted(hello);
    const seq = (message ?? gap)?.seq;
    if (seq && this.session) this.session.seq = seq;
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

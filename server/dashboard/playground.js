// A client in the page, with every frame that it sends and receives. The client stays connected while other
// pages are shown, so that its session can be inspected on those pages.

import { get, poll, reasonOf } from "./api.js";
import { deadlineTable } from "./deadlines.js";
import { card, el, heading, isIdle, setIdle, setText } from "./dom.js";
import { duration } from "./format.js";
import { frameList } from "./frames.js";
import { phaseBadge } from "./phase.js";
import { Player } from "./player.js";
import { sessionLink } from "./route.js";
import { commandForm } from "./command_form.js";

const REFRESH_MS = 1000;

const player = new Player();

export const forgetPlayer = () => player.forget();

export function playground(root, { live, signal }) {
  const url = urlOf(live.server);
  const frames = frameList(player, signal);
  const observed = sessionCard(live, signal);
  const command = commandForm((text) => player.send(text));
  const controls = controlForm(url);
  root.append(
    heading("Playground"),
    el("p", { class: "lead" }, "A client in this page. Drop its connection, or stop answering pings, and watch its session wait for it."),
    el(
      "div",
      { class: "columns" },
      el("div", null, controls.element, observed, card("Send a command", null, command.element)),
      card("Frames", null, frames.note, frames.element),
    ),
  );
  const update = () => {
    controls.update();
    command.enable(player.isOpen && !player.isSilent);
  };
  player.addEventListener("state", update, { signal });
  update();
}

const urlOf = ({ public_url, public_port, public_tls }) => {
  const base = public_url ?? `${public_tls ? "wss" : "ws"}://${location.hostname}:${public_port}`;
  return `${base.replace(/^http/, "ws").replace(/\/$/, "")}/ws`;
};

function controlForm(url) {
  const typed = ({ target }) => (player.token = target.value.trim());
  const token = el("input", { id: "token", oninput: typed, autocomplete: "off", spellcheck: "false", "aria-describedby": "token-note" });
  token.value = player.token;
  const button = (title, act, more) => el("button", { type: "button", onclick: ({ target }) => isIdle(target) || act(), ...more }, title);
  const connect = button("Connect", () => player.connect(url), { class: "main" });
  const reconnect = button("Reconnect", () => player.reconnect(url));
  const cut = button("Drop the connection", () => player.drop());
  const silence = button("Stop answering", () => player.stopAnswering());
  const statusLine = el("p", { class: "player", role: "status", data: { name: "player" } });
  const element = card(
    "Connection",
    null,
    el("p", null, el("code", null, url)),
    el(
      "div",
      { class: "stack" },
      el("label", { for: "token" }, "Token"),
      token,
      el("p", { id: "token-note", class: "note" }, "A JWT, if the server requires one. It is kept only in this page."),
    ),
    el("div", { class: "acts" }, connect, cut, silence, reconnect),
    statusLine,
  );
  return {
    element,
    update() {
      const isAway = !player.isOpen && !player.isConnecting;
      setIdle(connect, !isAway);
      setIdle(cut, isAway);
      setIdle(silence, !player.isOpen || player.isSilent);
      setIdle(reconnect, !isAway || !player.session);
      setText(statusLine, player.status);
    },
  };
}

// The server's view of the session.
function sessionCard(live, signal) {
  const phase = phaseBadge();
  const link = el("a", { class: "id" });
  const statusLine = el("p", { class: "note", role: "status" }, "No session yet.");
  const deadlines = deadlineTable(signal, "Deadlines of the playground");
  const head = el("p", { hidden: true }, link, " ", phase.element);
  const element = card("Session", null, head, statusLine, deadlines.element);

  async function look() {
    const { session } = player;
    head.hidden = !session;
    deadlines.element.hidden = !session;
    if (!session) return setText(statusLine, "No session yet.");
    setText(link, session.id);
    link.href = sessionLink(session.id);
    try {
      const seen = await get(`/api/sessions/${encodeURIComponent(session.id)}`, signal);
      session.isHere = true;
      if (seen.phase === "closed") sessionEnded(session);
      phase.become(seen.phase);
      deadlines.update(seen.deadlines, live.server.timeouts);
      setText(
        statusLine,
        seen.phase === "attached"
          ? `Last input ${duration(seen.last_heard_ms)} ago`
          : seen.phase === "closed" ? "The session has ended." : "The session waits for its client.",
      );
    } catch (error) {
      if (error.status !== 404) throw error;
      phase.become(session.isHere ? "closed" : "unknown");
      deadlines.update([], null);
      setText(statusLine, session.isHere ? "The session has ended." : "This server does not know the session.");
      if (session.isHere) sessionEnded(session);
    }
  }

  // Informs the player, unless it has another session by now.
  function sessionEnded(session) {
    if (player.session === session) player.sessionEnded();
  }

  const again = poll(REFRESH_MS, signal, look, (error) => error && setText(statusLine, `Update failed: ${reasonOf(error)}`));
  player.addEventListener("state", again, { signal });
  return element;
}

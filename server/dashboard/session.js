// Page of a session: its deadlines, its timeline, its subscriptions, and the operator's actions.

import { ApiError, request, get, poll, reasonOf } from "./api.js";
import { confirmed } from "./confirm_dialog.js";
import { deadlineTable } from "./deadlines.js";
import { card, el, heading, isIdle, named, number, setIdle, setText, table } from "./dom.js";
import { ago, count, duration, words } from "./format.js";
import { failureOf } from "./failure_text.js";
import { phaseBadge } from "./phase.js";
import { channelLink } from "./route.js";
import { timeline } from "./timeline.js";

const REFRESH_MS = 1000;

export function session(root, { live, item: id, signal }) {
  const statusLine = el("p", { class: "notice", role: "status", hidden: true });
  const facts = sessionFacts();
  const deadlines = deadlineTable(signal);
  const life = timeline();
  const follows = subscriptionTable();
  const acts = actions(id, live, signal, say);
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  let hasEnded = false;
  let isComplete = false; // No further updates are expected.
  let isUnread = false;
  let wasThere = false;
  root.append(
    heading("Session", el("p", { class: "id" }, id)),
    statusLine,
    acts.element,
    facts.element,
    el("div", { class: "columns" }, card("Deadlines", null, deadlines.element), card("Timeline", null, life.element)),
    card("Subscriptions", null, follows.none, follows.element),
  );

  async function look() {
    if (isComplete) return;
    const now = await nullIfMissing(get(path, signal));
    const events = await nullIfMissing(get(`${path}/timeline`, signal));
    if (signal.aborted) return;
    wasThere ||= now !== null;
    if (now) {
      facts.update(now);
      acts.update(now);
      deadlines.update(now.deadlines, live.server.timeouts);
      follows.update(now.subscriptions);
    }
    const now_ms = live.last?.at_ms ?? Date.now();
    if (events) life.update(events, now && now_ms - now.age_ms, now_ms);
    if (!now || now.phase === "closed") ended(now, events);
    isComplete = !now;
  }

  // The session may have ended before the page was opened, or while it is open.
  function ended(now, events) {
    if (hasEnded) return;
    hasEnded = true;
    const last = events?.events.at(-1);
    const reason = now?.close_reason ?? (last?.event === "closed" || last?.event === "expired" ? last.reason : null);
    say(
      !wasThere && !events
        ? "Unknown session: it ended long ago, or never existed."
        : `This session has ended${reason ? `: ${words(reason)}` : ""}.`,
    );
    deadlines.update([], null);
    facts.end();
    acts.end();
  }

  function say(text) {
    statusLine.hidden = false;
    setText(statusLine, text);
  }

  poll(REFRESH_MS, signal, look, (error) => {
    if (error) say(`Update failed: ${reasonOf(error)}`);
    else if (isUnread) statusLine.hidden = true;
    isUnread = error !== null;
  });
}

// Returns null for a missing session, which is not an error.
const nullIfMissing = (answer) =>
  answer.catch((error) => {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return null;
    throw error;
  });

function sessionFacts() {
  const phase = phaseBadge();
  const user = el("span", { data: { name: "user" } }, "–");
  const names = ["connection", "address", "age", "last input", "seq", "unacknowledged"];
  const values = Object.fromEntries(names.map((name) => [name, number(name)]));
  const rows = [["phase", phase.element], ["user", user], ...Object.entries(values)];
  const element = el(
    "dl",
    { class: "facts card" },
    rows.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))),
  );
  return {
    element,
    end: () => phase.become("closed"),
    update(session) {
      phase.become(session.phase);
      user.replaceChildren(session.user === null ? "none" : named(session.user));
      setText(values.connection, `${session.transport}, ${session.dialect}`);
      setText(values.address, session.address ?? "–");
      setText(values.age, duration(session.age_ms));
      setText(values["last input"], ago(session.last_heard_ms));
      setText(values.seq, count(session.seq));
      setText(values.unacknowledged, count(session.unacked));
    },
  };
}

function subscriptionTable() {
  const columns = [{ title: "Channel" }, { title: "Cursor", number: true }, { title: "Backlog", number: true }];
  const none = el("p", { class: "note", hidden: true }, "No subscriptions.");
  const rows = table(
    "Subscriptions",
    columns,
    ({ channel }) => {
      const [cursor, backlog] = [el("span"), el("span")];
      const name = channel.startsWith("$") ? named(channel) : el("a", { href: channelLink(channel) }, named(channel));
      const update = (subscription) => {
        setText(cursor, count(subscription.cursor));
        setText(backlog, count(subscription.backlog));
      };
      return { cells: [name, cursor, backlog], update };
    },
    { hidden: true },
  );
  return {
    none,
    element: rows.element,
    update(subscriptions) {
      none.hidden = subscriptions.length > 0;
      rows.element.hidden = subscriptions.length === 0;
      rows.update(subscriptions, ({ channel }) => channel);
    },
  };
}

const DISCONNECT = {
  title: "Disconnect this session?",
  text: "Its connection is closed with 4007 (disconnected). The client may resume the session within the reconnect window, without losing messages.",
  act: "Disconnect",
};

const END = {
  title: "End this session?",
  text: "The session is closed with 4101 (kicked), and cannot be resumed. Messages that its client has not received are lost.",
  act: "End session",
};

function actions(id, live, signal, say) {
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  let user; // Undefined until the session has been read.
  const about = () => {
    if (user === undefined) return id;
    return user === null ? `${id}, without a user` : [`${id}, user `, named(user)];
  };
  const act = async (question, method, url, done) => {
    if (!(await confirmed({ ...question, about: about() }, signal))) return;
    try {
      await request(method, url);
      say(done);
    } catch (error) {
      say(failureOf(error, "done"));
    }
  };
  const button = (title, look, start) => el("button", { type: "button", ...look, onclick: ({ target }) => isIdle(target) || start() }, title);
  // The message must be true even if the session had no connection before.
  const disconnect = button("Disconnect…", null, () => act(DISCONNECT, "POST", `${path}/disconnect`, "The session has no connection now."));
  const end = button("End session…", { class: "danger" }, () => act(END, "DELETE", path, "The session was ended."));
  const why = el("p", { id: "why-not", class: "note", hidden: true });
  const refuse = (reason) => {
    for (const button of [disconnect, end]) {
      setIdle(button, true);
      button.setAttribute("aria-describedby", "why-not");
    }
    why.hidden = false;
    setText(why, reason);
  };
  if (!live.may("sessions")) refuse("Your API key lacks the scope sessions.");
  return {
    element: el("div", { class: "acts" }, disconnect, end, why),
    update: (session) => (user = session.user),
    end: () => refuse("The session has already ended."),
  };
}

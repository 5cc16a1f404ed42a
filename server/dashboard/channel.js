// One channel: its numbers, the tail of its log, who follows it, and a form to publish.

import { ApiError, get, poll, reasonOf } from "./api.js";
import { messagesAsWritten } from "./as_written.js";
import { card, el, heading, named, number, setText, table } from "./dom.js";
import { ago, bytes, count, plural } from "./format.js";
import { longText } from "./long_text.js";
import { phaseBadge } from "./phase.js";
import { publishForm } from "./publish_form.js";
import { sessionLink } from "./route.js";

const TAIL_MS = 2000;
const FOLLOWERS_MS = 5000;
const TAIL = 50;
const FOLLOWERS = 50;
const BEYOND_ALL = Number.MAX_SAFE_INTEGER;

export function channel(root, { live, item: name, signal }) {
  const path = `/api/channels/${encodeURIComponent(name)}`;
  const newest = `${path}/history?before=${BEYOND_ALL}&limit=${TAIL}`;
  const says = el("p", { class: "notice", role: "status", hidden: true });
  const facts = channelFacts(live.server.engine === "redis");
  const log = tail();
  const who = followers();
  const say = (text) => {
    says.hidden = text === null;
    setText(says, text ?? "");
  };
  const tells = (nothing) => (error) => {
    if (!error) return say(null);
    say(error instanceof ApiError && error.status === 404 ? nothing : `Not read: ${reasonOf(error)}`);
  };
  const look = poll(
    TAIL_MS,
    signal,
    async () => {
      const [shown, history] = await Promise.all([ifThere(get(path, signal)), get(newest, signal, messagesAsWritten)]);
      if (shown) facts.update(shown);
      log.update(history);
    },
    tells("There is no such channel now. It comes to be when someone follows it, or publishes to it."),
  );
  poll(
    FOLLOWERS_MS,
    signal,
    async () => who.update(await get(`${path}/presence?limit=${FOLLOWERS}`, signal)),
    (error) => error && who.fail(reasonOf(error)),
  );
  root.append(
    heading("Channel", el("p", { class: "id" }, named(name))),
    says,
    facts.element,
    el(
      "div",
      { class: "columns" },
      card("Newest messages", null, log.none, log.element),
      el("div", null, card("Publish", null, publishForm(name, live, look)), card("Followers", null, who.note, who.element)),
    ),
  );
}

// With channels in Redis, one that nobody follows here has a log, but this server has no numbers of it.
async function ifThere(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function channelFacts(isShared) {
  const names = ["messages", "bytes", "first", "last", "followers", "epoch"];
  const titleOf = (name) => (name === "followers" && isShared ? "followers here" : name);
  const values = Object.fromEntries(names.map((name) => [name, number(name)]));
  return {
    element: el(
      "dl",
      { class: "facts card" },
      names.map((name) => el("div", null, el("dt", null, titleOf(name)), el("dd", null, values[name]))),
    ),
    update({ messages, bytes: size, first, last, subscribers, epoch }) {
      setText(values.messages, count(messages));
      setText(values.bytes, bytes(size));
      setText(values.first, count(first));
      setText(values.last, count(last));
      setText(values.followers, count(subscribers));
      setText(values.epoch, epoch);
    },
  };
}

// The newest on top.
function tail() {
  const none = el("p", { class: "note", hidden: true }, "Its log is empty.");
  const rows = table(
    "Messages",
    [{ title: "Offset" }, { title: "From", wide: true }, { title: "Data" }, { title: "Age", number: true }],
    (message) => {
      const age = el("span");
      const from = el(
        "span",
        null,
        message.user ? named(message.user) : "–",
        message.channel ? el("small", null, " on ", named(message.channel)) : null,
      );
      return { cells: [count(message.offset), from, contentOf(message), age], update: ({ age_ms }) => setText(age, ago(age_ms)) };
    },
    { hidden: true, more: "log" },
  );
  return {
    none,
    element: rows.element,
    update({ epoch, messages }) {
      none.hidden = messages.length > 0;
      rows.element.hidden = messages.length === 0;
      // A log that begins anew has the same offsets again.
      rows.update(messages.toReversed(), ({ offset }) => `${epoch} ${offset}`);
    },
  };
}

function contentOf(message) {
  for (const kind of ["joined", "left"]) {
    if (!message[kind]) continue;
    const { session, user } = message[kind];
    return el("span", null, `${kind}: `, el("a", { href: sessionLink(session) }, user ? named(user) : session));
  }
  return longText(JSON.stringify(message.data));
}

const serversOf = (names) => names.map((name) => (name === "*" ? "any other" : name)).join(", ");

function followers() {
  const note = el("p", { class: "note" });
  const rows = table(
    "Followers",
    [{ title: "Session" }, { title: "User" }, { title: "Phase" }],
    ({ session, user }) => {
      const { element, become } = phaseBadge();
      const cells = [el("a", { href: sessionLink(session), class: "id" }, session), user === null ? "none" : named(user), element];
      return { cells, update: ({ phase }) => become(phase) };
    },
    { hidden: true },
  );
  return {
    note,
    element: rows.element,
    update({ total, present, incomplete }) {
      rows.element.hidden = present.length === 0;
      rows.update(present, ({ session }) => session);
      const part = total > present.length ? `; these are ${count(present.length)} of them` : "";
      const known = `${plural(total, "session")} ${total === 1 ? "follows" : "follow"} it${part}`;
      setText(note, incomplete ? `${known}, and those of servers that were not heard from: ${serversOf(incomplete)}.` : `${known}.`);
    },
    fail: (reason) => setText(note, `Not read: ${reason}`),
  };
}

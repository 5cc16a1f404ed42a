// Page of a channel: its numbers, its latest messages, its subscribers, and a form to publish.

import { ApiError, get, poll, reasonOf } from "./api.js";
import { messagesAsWritten } from "./exact_json.js";
import { card, el, heading, named, number, setText, table } from "./dom.js";
import { ago, bytes, count, plural } from "./format.js";
import { longText } from "./long_text.js";
import { phaseBadge } from "./phase.js";
import { publishForm } from "./publish_form.js";
import { sessionLink } from "./route.js";

const TAIL_MS = 2000;
const SUBSCRIBERS_MS = 5000;
const TAIL = 50;
const SUBSCRIBERS = 50;
const BEYOND_ALL = Number.MAX_SAFE_INTEGER;

export function channel(root, { live, item: name, signal }) {
  const path = `/api/channels/${encodeURIComponent(name)}`;
  const newest = `${path}/history?before=${BEYOND_ALL}&limit=${TAIL}`;
  const notice = el("p", { class: "notice", role: "status", hidden: true });
  const facts = channelFacts(live.server.engine === "redis");
  const log = tail();
  const subscriberCard = subscribers();
  const showNotice = (text) => {
    notice.hidden = text === null;
    setText(notice, text ?? "");
  };
  const reporter = (notFound) => (error) => {
    if (!error) return showNotice(null);
    showNotice(error instanceof ApiError && error.status === 404 ? notFound : `Update failed: ${reasonOf(error)}`);
  };
  const refresh = poll(
    TAIL_MS,
    signal,
    async () => {
      const [shown, history] = await Promise.all([nullIfMissing(get(path, signal)), get(newest, signal, messagesAsWritten)]);
      if (shown) facts.update(shown);
      log.update(history);
    },
    reporter("This channel does not exist at the moment. It is created when a client subscribes or a message is published to it."),
  );
  poll(
    SUBSCRIBERS_MS,
    signal,
    async () => subscriberCard.update(await get(`${path}/presence?limit=${SUBSCRIBERS}`, signal)),
    (error) => error && subscriberCard.fail(reasonOf(error)),
  );
  root.append(
    heading("Channel", el("p", { class: "id" }, named(name))),
    notice,
    facts.element,
    el(
      "div",
      { class: "columns" },
      card("Newest messages", null, log.none, log.element),
      el("div", null, card("Publish", null, publishForm(name, live, refresh)), card("Subscribers", null, subscriberCard.note, subscriberCard.element)),
    ),
  );
}

// With channels in Redis, a channel without local subscribers has a history, but this server has no numbers
// for it.
async function nullIfMissing(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function channelFacts(isShared) {
  const names = ["messages", "bytes", "first", "last", "subscribers", "epoch"];
  const titleOf = (name) => (name === "subscribers" && isShared ? "subscribers here" : name);
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
      setText(values.subscribers, count(subscribers));
      setText(values.epoch, epoch);
    },
  };
}

// Newest message first.
function tail() {
  const none = el("p", { class: "note", hidden: true }, "The log is empty.");
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
      // Offsets start again after a reset of the log, so only epoch and offset together are unique.
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

const serversOf = (names) => names.map((name) => (name === "*" ? "all others" : name)).join(", ");

function subscribers() {
  const note = el("p", { class: "note" });
  const rows = table(
    "Subscribers",
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
      const part = total > present.length ? `, ${count(present.length)} of them shown` : "";
      const known = `${plural(total, "session")} subscribed${part}`;
      setText(note, incomplete ? `${known}, without those of servers that did not answer: ${serversOf(incomplete)}.` : `${known}.`);
    },
    fail: (reason) => setText(note, `Update failed: ${reason}`),
  };
}

// Table of sessions: filtered by phase and user, in pages, refreshed while visible.

import { get, poll, reasonOf } from "./api.js";
import { el, heading, isIdle, named, setIdle, setText, table } from "./dom.js";
import { ago, duration, plural } from "./format.js";
import { phaseBadge } from "./phase.js";
import { sessionLink } from "./route.js";

const REFRESH_MS = 5000;
const PAGE = 50;

export function sessions(root, { query, signal }) {
  const filter = { phase: query.get("phase") ?? "", user: query.get("user") ?? "" };
  const before = []; // Cursors of the previous pages.
  let cursor = 0;
  let next = null;

  const statusLine = el("p", { class: "note", role: "status", data: { name: "says" } });
  const rows = table("Sessions", COLUMNS, row, { hidden: true, more: "list" });
  const turn = (title, act) => el("button", { type: "button", onclick: ({ target }) => isIdle(target) || act() }, title);
  const back = turn("Previous page", () => before.length > 0 && go(before.pop()));
  const on = turn("Next page", () => next !== null && before.push(cursor) && go(next));
  root.append(
    heading("Sessions"),
    filters(filter),
    el("div", { class: "card" }, statusLine, rows.element, el("nav", { class: "turn", "aria-label": "Pages of sessions" }, back, on)),
  );

  // Shows another page. The cursor of the page after it is unknown until the page has been read.
  function go(to) {
    cursor = to;
    next = null;
    look();
  }

  async function read() {
    const asked = cursor;
    const parameters = Object.entries({ ...filter, limit: PAGE, cursor: asked }).filter(([, value]) => value !== "");
    const page = await get(`/api/sessions?${new URLSearchParams(parameters)}`, signal);
    if (asked !== cursor) return read();
    next = page.next_cursor;
    rows.update(page.sessions, ({ id }) => id);
    setIdle(back, before.length === 0);
    setIdle(on, next === null);
    setText(statusLine, text(page.sessions.length));
  }

  function text(found) {
    const where = before.length > 0 ? `, page ${before.length + 1}` : "";
    if (found > 0) return `${plural(found, "session")} on this page${where}`;
    return next === null ? `No sessions${where}` : `No matches on this page${where}; there are more pages`;
  }

  const look = poll(REFRESH_MS, signal, read, (error) => error && setText(statusLine, `Update failed: ${reasonOf(error)}`));
}

const COLUMNS = [
  { title: "Session" },
  { title: "User" },
  { title: "Phase" },
  { title: "Connection", wide: true },
  { title: "Age", number: true, wide: true },
  { title: "Last input", number: true },
];

function row({ id, user }) {
  const link = el("a", { href: sessionLink(id), class: "id" }, id);
  const who = user === null ? el("span", { class: "none" }, "none") : named(user);
  const phase = phaseBadge();
  const [by, age, heard] = [el("span"), el("span"), el("span")];
  const update = (session) => {
    phase.become(session.phase);
    setText(by, `${session.transport}, ${session.dialect}`);
    setText(age, duration(session.age_ms));
    setText(heard, ago(session.last_heard_ms));
  };
  return { cells: [link, who, phase.element, by, age, heard], update };
}

// Puts the filter into the URL, so that the browser's history works.
function filters({ phase, user }) {
  const option = (value, title) => el("option", { value, selected: value === phase }, title);
  const phases = el(
    "select",
    { id: "phase", name: "phase" },
    option("", "any"),
    option("attached", "attached"),
    option("suspended", "suspended"),
  );
  const users = el("input", { id: "user", name: "user", value: user, maxlength: 255, autocomplete: "off", spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    const chosen = [
      ["phase", phases.value],
      ["user", users.value],
    ].filter(([, value]) => value !== "");
    location.hash = `#/sessions${chosen.length > 0 ? `?${new URLSearchParams(chosen)}` : ""}`;
  };
  const clear = (phase || user) && el("a", { href: "#/sessions" }, "All sessions");
  return el(
    "form",
    { class: "filters", role: "search", "aria-label": "Sessions", onsubmit: submit },
    el("p", null, el("label", { for: "phase" }, "Phase"), phases),
    el("p", null, el("label", { for: "user" }, "User (whole name)"), users),
    el("button", { type: "submit" }, "Filter"),
    clear || null,
  );
}

// Timeline of a session: a strip from its beginning until now, and a list of its events.

import { el, svg } from "./dom.js";
import { ago, duration, time, words } from "./format.js";

const PHASES = { opened: "attached", resumed: "attached", suspended: "suspended", closed: "closed", expired: "closed" };
const WIDTH = 1000;

export function timeline() {
  const strip = el("div", { class: "strip" });
  const list = el("ol", { class: "events", tabindex: 0, "aria-label": "Events, newest first" });
  const note = el("p", { class: "note" });
  let shown = "";
  return { element: el("div", null, strip, note, list), update };

  // `began_ms`: when the session began, if known; some of its events may have been discarded.
  function update({ since_ms, events }, began_ms, seen_ms) {
    const last = events.at(-1);
    const isOver = PHASES[last?.event] === "closed";
    const now_ms = Math.max(seen_ms, last?.at_ms ?? 0);
    const to_ms = isOver ? last.at_ms : now_ms;
    const first = events[0];
    const from_ms = first?.event === "opened" ? first.at_ms : Math.min(began_ms ?? to_ms, first?.at_ms ?? to_ms);
    strip.replaceChildren(drawing(spans(events, to_ms), from_ms, to_ms, isOver));
    note.textContent =
      first?.event === "opened" ? "" : `The server has events since ${time(since_ms)}; earlier ones were discarded.`;
    note.hidden = note.textContent === "";
    const signature = `${events.length} ${last?.at_ms} ${last?.event}`;
    if (signature !== shown) list.replaceChildren(...events.toReversed().map((event) => entry(event)));
    shown = signature;
    [...list.children].forEach(
      (item, index) => (item.querySelector("small").textContent = ago(Math.max(0, now_ms - events.at(-1 - index).at_ms))),
    );
  }
}

function spans(events, now_ms) {
  return events
    .map(({ at_ms, event }, index) => ({ from_ms: at_ms, to_ms: events[index + 1]?.at_ms ?? now_ms, phase: PHASES[event] }))
    .filter(({ phase }) => phase && phase !== "closed");
}

// Draws the strip. The list of events is its text alternative.
function drawing(parts, from_ms, now_ms, isOver) {
  const x = (at_ms) => (WIDTH * (at_ms - from_ms)) / Math.max(1, now_ms - from_ms);
  const bars = parts.map(({ from_ms, to_ms, phase }) =>
    svg("rect", {
      class: phase,
      x: x(from_ms),
      y: phase === "suspended" ? 9 : 4,
      width: Math.max(2, x(to_ms) - x(from_ms)),
      height: phase === "suspended" ? 6 : 16,
    }),
  );
  const marks = parts.map(({ from_ms }) => svg("rect", { class: "mark", x: Math.max(0, x(from_ms) - 1), y: 0, width: 2, height: 24 }));
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} 24`, preserveAspectRatio: "none", "aria-hidden": true },
    svg("rect", { class: "track", x: 0, y: 10.5, width: WIDTH, height: 3 }),
    bars,
    marks,
  );
  const ends = el(
    "p",
    { class: "ends", "aria-hidden": true },
    el("span", null, time(from_ms)),
    el("span", null, `${duration(now_ms - from_ms)} ${isOver ? "total" : "so far"}`),
  );
  return el("div", null, picture, ends);
}

function entry({ at_ms, event, reason }) {
  const phase = PHASES[event] ?? "other";
  return el(
    "li",
    { class: phase },
    el("time", { datetime: new Date(at_ms).toISOString() }, time(at_ms)),
    " ",
    el("b", null, words(event)),
    reason ? ` ${words(reason)} ` : " ",
    el("small"),
  );
}

// Deadlines of a session as bars that run down. Between updates from the server, they follow the page's
// clock.

import { el, setText, table } from "./dom.js";
import { duration, words } from "./format.js";

const STEP_MS = 100;

// Consequence of each deadline, and the timeout that arms it.
const MEANING = {
  ping: ["a ping is sent", "ping_interval_ms"],
  pong: ["the connection is closed as dead", "pong_timeout_ms"],
  poll_hold: ["the poll gets an empty answer", "poll_hold_ms"],
  poll_gap: ["the session is suspended", "poll_gap_ms"],
  reconnect: ["the session expires", "reconnect_window_ms"],
  idle: ["the session is closed as idle", "idle_ms"],
  token: ["the session is suspended", null],
  lifetime: ["the session is closed", "lifetime_ms"],
};

const COLUMNS = [{ title: "Deadline" }, { title: "Remaining", number: true }, { title: "Then", wide: true }];

export function deadlineTable(signal, caption = "Deadlines") {
  const none = el("p", { class: "note" }, "No deadline is armed.");
  const running = new Map(); // Expiry and elements of each deadline.
  const rows = table(caption, COLUMNS, row, { hidden: true, more: "deadlines" });
  const isQuiet = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const timer = setInterval(draw, isQuiet ? 1000 : STEP_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  rows.element.hidden = true;
  return { element: el("div", null, none, rows.element), update };

  function update(deadlines, timeouts) {
    const now = performance.now();
    const names = deadlines.map(({ deadline }) => deadline);
    for (const name of running.keys()) if (!names.includes(name)) running.delete(name);
    for (const { deadline, remaining_ms } of deadlines) {
      const most = Math.max(running.get(deadline)?.of_ms ?? 0, timeouts?.[MEANING[deadline]?.[1]] ?? 0, remaining_ms);
      running.set(deadline, { ...running.get(deadline), at: now + remaining_ms, of_ms: most });
    }
    rows.update(deadlines, ({ deadline }) => deadline);
    none.hidden = deadlines.length > 0;
    rows.element.hidden = deadlines.length === 0;
    draw();
  }

  function row({ deadline }) {
    const remaining = el("span", { data: { deadline } });
    const fill = el("div", { class: "fill" });
    Object.assign(running.get(deadline), { remaining, fill });
    const then = MEANING[deadline]?.[0] ?? "";
    return { cells: [el("div", null, words(deadline), el("div", { class: "bar", "aria-hidden": true }, fill)), remaining, then] };
  }

  function draw() {
    if (document.hidden) return;
    const now = performance.now();
    for (const { at, of_ms, remaining, fill } of running.values()) {
      if (!fill) continue;
      const left_ms = Math.max(0, at - now);
      setText(remaining, left_ms === 0 ? "now" : duration(left_ms < 60_000 ? 100 * Math.round(left_ms / 100) : left_ms));
      fill.style.width = `${Math.min(100, (100 * left_ms) / of_ms)}%`;
      fill.classList.toggle("late", left_ms < 0.1 * of_ms);
    }
  }
}

// Small line chart. The current values are listed below it; the mouse and the arrow keys select values at
// other times.

import { el, setAttribute, setText, svg } from "./dom.js";
import { duration, words } from "./format.js";

const HEIGHT = 112;
const NO_DATA = "no data yet";
const MARGIN = { top: 8, right: 4, bottom: 18, left: 50 };

export function chart(title, format, signal) {
  const plot = svg("g");
  const cross = svg("line", { class: "cross", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: "hidden" });
  const drawing = svg("svg", { height: HEIGHT, "aria-hidden": true, focusable: "false" }, plot, cross);
  const at = el("p", { class: "at", "aria-hidden": true });
  const frame = el(
    "div",
    {
      class: "chart",
      role: "slider",
      tabindex: 0,
      "aria-label": `${title}, over time`,
      "aria-valuemin": 0,
      "aria-valuemax": 0,
      "aria-valuenow": 0,
    },
    drawing,
    at,
  );
  const legend = el("dl", { class: "legend" });
  const entries = new Map();
  const order = []; // A line keeps its colour while the page is open.
  let shown = null;
  let width = 320;
  let chosen = null; // Index of the selected point.
  let announced; // Index of the point announced to screen readers.

  new ResizeObserver(([{ contentRect }]) => {
    if (signal.aborted || contentRect.width === 0) return;
    width = contentRect.width;
    draw();
  }).observe(frame);
  frame.addEventListener("pointermove", ({ clientX }) => {
    const share = (clientX - frame.getBoundingClientRect().left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
    choose(nearest(shown, share));
  });
  for (const leave of ["pointerleave", "blur"]) frame.addEventListener(leave, () => choose(null));
  frame.addEventListener("keydown", (event) => {
    const count = shown?.lines[0]?.points.length ?? 0;
    const from = chosen ?? count - 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 10, PageDown: from + 10, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Escape") choose(null);
    if (to === undefined || count === 0) return;
    event.preventDefault();
    choose(Math.min(Math.max(to, 0), count - 1));
  });
  return { elements: [frame, legend], update };

  // Takes { lines, window_s, to_ms }, and optionally `least`, the minimum upper end of the axis, and `base`,
  // 1024 for bytes.
  function update(next) {
    shown = next;
    for (const { name } of next.lines) if (!order.includes(name)) order.push(name);
    draw();
    list();
  }

  function draw() {
    if (!shown) return;
    const { lines, window_s, to_ms } = shown;
    const top = ceiling(Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value ?? 0))), shown);
    const x = (at_ms) => MARGIN.left + (1 - (to_ms - at_ms) / (1000 * window_s)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    setAttribute(drawing, "viewBox", `0 0 ${width} ${HEIGHT}`);
    setAttribute(drawing, "width", width);
    plot.replaceChildren(...axes(x, y, top), ...lines.map((line) => path(line, x, y)));
    mark(x);
  }

  function axes(x, y, top) {
    const { window_s, to_ms } = shown;
    const levels = [0, top / 2, top].flatMap((value) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { x: MARGIN.left - 6, y: y(value) + 3.5, "text-anchor": "end" }, format(value)),
    ]);
    const times = [window_s, window_s / 2, 0].map((before_s) => {
      const text = before_s === 0 ? "now" : `−${before_s >= 120 ? `${before_s / 60} min` : `${before_s} s`}`;
      const anchor = before_s === 0 ? "end" : before_s === window_s ? "start" : "middle";
      return svg("text", { x: x(to_ms - 1000 * before_s), y: HEIGHT - 3, "text-anchor": anchor }, text);
    });
    const nothing =
      shown.lines.length === 0 && svg("text", { x: x(to_ms - 500 * window_s), y: HEIGHT / 2 - 8, "text-anchor": "middle" }, NO_DATA);
    return [...levels, ...times, ...(nothing ? [nothing] : [])];
  }

  // Missing values leave gaps in the line.
  function path({ name, points }, x, y) {
    let pen = "M";
    const d = points.map(([at_ms, value]) => {
      if (value === null) return (pen = "M") && "";
      const step = `${pen}${x(at_ms).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
      return step;
    });
    return svg("path", { class: `line ${look(name)}`, d: d.join("") });
  }

  function look(name) {
    return `series-${order.indexOf(name) % 6}`;
  }

  function list() {
    const names = shown.lines.map(({ name }) => name);
    for (const [name, { row }] of entries) {
      if (names.includes(name)) continue;
      row.remove();
      entries.delete(name);
    }
    for (const { name, now } of shown.lines) {
      if (!entries.has(name)) entries.set(name, entry(name));
      setText(entries.get(name).value, now === null ? "–" : format(now));
    }
  }

  function entry(name) {
    const sample = svg(
      "svg",
      { width: 18, height: 8, "aria-hidden": true, focusable: "false" },
      svg("path", { class: `line ${look(name)}`, d: "M0 4H18" }),
    );
    const value = el("dd", { data: { series: name } });
    const row = el("div", null, el("dt", null, sample, words(name)), value);
    legend.append(row);
    return { row, value };
  }

  function choose(index) {
    chosen = index;
    draw();
  }

  function mark(x) {
    const points = shown.lines[0]?.points ?? [];
    const point = chosen === null ? null : points[chosen];
    cross.setAttribute("visibility", point ? "visible" : "hidden");
    setAttribute(frame, "aria-valuemax", Math.max(0, points.length - 1));
    setAttribute(frame, "aria-valuenow", Math.max(0, chosen ?? points.length - 1));
    const index = point ? chosen : points.length - 1;
    const at_ms = points[index]?.[0] ?? shown.to_ms;
    const when = shown.to_ms - at_ms < 1000 ? "now" : `${duration(shown.to_ms - at_ms)} ago`;
    const values = shown.lines.map(({ name, points }) => [words(name), points[index]?.[1]]);
    const text =
      values.length === 0
        ? NO_DATA
        : `${when}: ${values.map(([name, value]) => `${name} ${value === null || value === undefined ? "–" : format(value)}`).join(", ")}`;
    // Update the text on user interaction rather than every second, so that screen readers stay quiet.
    if (point || chosen !== announced || document.activeElement !== frame) setAttribute(frame, "aria-valuetext", text);
    announced = chosen;
    setText(at, point ? text : "");
    at.hidden = !point;
    if (point) ["x1", "x2"].forEach((end) => cross.setAttribute(end, x(at_ms)));
  }
}

function nearest(shown, share) {
  const points = shown?.lines[0]?.points ?? [];
  if (points.length === 0) return null;
  const at_ms = shown.to_ms - 1000 * shown.window_s * (1 - share);
  const after = points.findIndex(([other_ms]) => other_ms >= at_ms);
  if (after <= 0) return after === 0 ? 0 : points.length - 1;
  return at_ms - points[after - 1][0] < points[after][0] - at_ms ? after - 1 : after;
}

// Returns a round number that is not less than any of the values, and whose half is round as well.
export function ceiling(most, { least = 1, base = 10 }) {
  const size = Math.max(most, least);
  const power = base ** Math.floor(Math.log(size) / Math.log(base) + 1e-9);
  const steps = base === 10 ? [1, 2, 4, 6, 10] : Array.from({ length: 11 }, (_, bit) => 2 ** bit);
  return steps.map((step) => step * power).find((top) => top >= size * 0.999);
}

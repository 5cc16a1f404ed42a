// Card with the wheel and its numbers. Schemes without slots are shown as bars.

import { card, el, number, setAttribute, setText, table } from "./dom.js";
import { count, duration, plural, rate, words } from "./format.js";
import { Flashes, SIGNS, signOf } from "./flashes.js";
import { levelBars } from "./level_bars.js";
import { Wheel } from "./wheel.js";

const KINDS = Object.keys(SIGNS);
const colour = (kind) => `--kind-${Math.max(0, KINDS.indexOf(kind)) % 6}`;

export function wheelCard(signal) {
  const canvas = el("canvas", { role: "img", "aria-label": "The wheel" });
  const entries = number("timers.entries");
  const picture = el("div", { class: "dial" }, canvas, el("p", { class: "hub" }, entries, el("span", null, "timers")));
  const bars = levelBars();
  const flashes = new Flashes((kind) => getComputedStyle(canvas).getPropertyValue(colour(kind)).trim());
  const wheel = new Wheel(canvas, flashes, signal);
  const numbers = facts();
  const levels = levelTable();
  const expiries = expiryTable();
  const scheme = el("p", { class: "note" });
  const element = card(
    "The wheel",
    { class: "wheel" },
    scheme,
    el(
      "div",
      { class: "parts" },
      el("div", null, picture, bars.element),
      el("div", null, numbers.element, levels.element),
      expiries.element,
    ),
  );
  return { element, update };

  function update(sample, before) {
    const { timers, rings } = sample;
    const hasSlots = rings.length > 0;
    picture.hidden = !hasSlots;
    bars.element.hidden = hasSlots;
    setText(entries, count(timers.entries));
    setText(scheme, schemeText(timers, rings));
    numbers.update(timers);
    const expired = since(sample.expiries, before?.expiries);
    if (hasSlots) {
      wheel.update(rings, timers.tick_ms);
      if (before && sample.at_ms - before.at_ms < 5000) flashes.add(expired);
    } else bars.update(timers);
    levels.update(
      Array.from({ length: Math.max(rings.length, timers.levels.length) }, (_, index) => [index, rings[index], timers]),
      ([index]) => index,
    );
    const seconds = before ? (sample.at_ms - before.at_ms) / 1000 : 1;
    expiries.update(
      Object.entries(sample.expiries).map(([kind, total]) => ({ kind, total, now: expired[kind] / seconds })),
      ({ kind }) => kind,
    );
    setAttribute(canvas, "aria-label", `The wheel holds ${plural(timers.entries, "timer")}: ${levelsText(timers.levels)}`);
  }
}

const since = (totals, before) =>
  Object.fromEntries(Object.entries(totals).map(([kind, total]) => [kind, before ? Math.max(0, total - (before[kind] ?? 0)) : 0]));

function schemeText({ scheme, tick_ms }, rings) {
  const how = rings.length > 0 ? `${plural(rings.length, "ring")}, finest outside; each arc is a slot, or several slots of a very large wheel` : "no slots";
  return `${scheme}: ${how}; a tick is ${duration(tick_ms)}`;
}

const levelsText = (levels) =>
  levels
    .map((held, index) => held > 0 && `${count(held)} on level ${index}`)
    .filter(Boolean)
    .join(", ") || "no timers";

function facts() {
  const list = el("dl", { class: "facts" });
  const fact = (title, name) => {
    const value = number(name);
    list.append(el("div", null, el("dt", null, title), el("dd", null, value)));
    return (text) => setText(value, text);
  };
  const [p50, p99, p999, most] = [
    ["Lateness p50", "p50_ms"],
    ["p99", "p99_ms"],
    ["p99.9", "p999_ms"],
    ["max", "max_ms"],
  ].map(([title, key]) => fact(title, `timers.lateness.${key}`));
  const age = fact("Dispatch age", "timers.dispatch.age_ms");
  const depth = fact("Dispatch depth", "timers.dispatch.depth");
  const stalls = fact("Stalls", "timers.stalls.count");
  const turn = fact("Last advanced", "timers.since_last_turn_ms");
  return {
    element: list,
    update({ lateness, dispatch, stalls: stalled, since_last_turn_ms }) {
      p50(duration(lateness.p50_ms));
      p99(duration(lateness.p99_ms));
      p999(duration(lateness.p999_ms));
      most(duration(lateness.max_ms));
      age(duration(dispatch.age_ms));
      depth(`${count(dispatch.depth)} of ${count(dispatch.capacity)}`);
      stalls(stalled.count > 0 ? `${count(stalled.count)} (${duration(stalled.stolen_ms)})` : "0");
      turn(`${duration(since_last_turn_ms)} ago`);
    },
  };
}

function levelTable() {
  const columns = [
    { title: "Level" },
    { title: "Arc", number: true },
    { title: "Occupied arcs", number: true },
    { title: "Entries", number: true },
  ];
  return table("Levels", columns, ([index]) => {
    const [slot, occupied] = [el("span"), el("span")];
    const held = number(`timers.levels.${index}`);
    const update = ([, ring, { levels, tick_ms }]) => {
      setText(slot, ring ? duration(ring.slot_ticks * tick_ms) : "–");
      setText(occupied, ring ? `${count(ring.occupied.length)} of ${count(ring.slots)}` : "–");
      setText(held, index in levels ? count(levels[index]) : "–");
    };
    return { cells: [String(index), slot, occupied, held], update };
  });
}

function expiryTable() {
  const columns = [{ title: "Expired" }, { title: "Per second", number: true }, { title: "Total", number: true }];
  return table("Expiries by kind", columns, ({ kind }) => {
    const sign = el("span", { class: "sign", "aria-hidden": true }, signOf(kind));
    sign.style.color = `var(${colour(kind)})`;
    const now = number(`expiries.${kind}.rate`);
    const all = number(`expiries.${kind}`);
    const update = ({ total, now: each }) => {
      setText(now, rate(each));
      setText(all, count(total));
      now.classList.toggle("lively", each > 0);
    };
    return { cells: [el("span", null, sign, words(kind)), now, all], update };
  });
}

// Page of limits and their use. The limits closest to being reached come first.

import { el, heading, number, setText, table } from "./dom.js";
import { bytes, count, percent } from "./format.js";

const NEAR = 0.8;

const COLUMNS = [
  { title: "Limit" },
  { title: "Used", number: true },
  { title: "Maximum", number: true, wide: true },
  { title: "Share", number: true },
];

export function limits(root, { live, signal }) {
  const summary = el("p", { class: "note", role: "status", data: { name: "says" } });
  const rows = table("Limits", COLUMNS, row, { hidden: true, more: "limits" });
  root.append(
    heading("Limits"),
    el("div", { class: "card" }, summary, rows.element),
    el(
      "p",
      { class: "note" },
      "Limits per session, user or address are not shown. ",
      el("code", null, "descriptors"),
      " is the clients' share of the process's file descriptors. All limits, and what happens when they are reached: ",
      el("a", { href: "/docs/reference/codes" }, "Reference"),
      ".",
    ),
  );

  function update() {
    if (!live.last || document.hidden) return;
    const sorted = live.last.limits
      .map((limit) => ({ ...limit, share: limit.used / limit.max }))
      .sort((one, other) => other.share - one.share);
    rows.update(sorted, ({ key }) => key);
    const near = sorted.filter(({ share }) => share >= NEAR).length;
    setText(summary, near === 0 ? "No limit is near." : `${near} of ${sorted.length} limits ${near === 1 ? "is" : "are"} near or reached.`);
  }
  live.addEventListener("sample", update, { signal });
  update();
}

function row({ key }) {
  const format = key.endsWith("bytes") || key === "limits.receive_total" ? bytes : count;
  const fill = el("div", { class: "fill" });
  const [used, max, share] = [number(`${key}.used`), number(`${key}.max`), number(`${key}.share`)];
  const word = el("b", { class: "word" });
  const update = (limit) => {
    const state = limit.share >= 1 ? "full" : limit.share >= NEAR ? "near" : "";
    setText(used, format(limit.used));
    setText(max, format(limit.max));
    setText(share, percent(limit.share));
    setText(word, state);
    fill.className = `fill ${state}`;
    fill.style.width = `${Math.min(100, 100 * limit.share)}%`;
  };
  return {
    cells: [el("div", null, el("code", null, key), " ", word, el("div", { class: "bar", "aria-hidden": true }, fill)), used, max, share],
    update,
  };
}

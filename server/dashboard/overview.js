// The overview: the wheel with its numbers, and charts of the last 15 minutes.

import { chart } from "./chart.js";
import { card, el, heading } from "./dom.js";
import { tiles } from "./tiles.js";
import { PANELS } from "./panels.js";
import { pick } from "./series.js";
import { wheelCard } from "./wheel_card.js";

export function overview(root, { live, signal }) {
  const numbers = tiles(live);
  const wheel = wheelCard(signal);
  const charts = PANELS.map(({ title, format, read, ...axis }) => {
    const { elements, update } = chart(title, format, signal);
    const element = card(title, { class: "panel", data: { panel: title } }, ...elements);
    return { element, update: (picked) => update({ ...picked, lines: read(picked), ...axis }) };
  });
  root.append(
    heading("Overview"),
    numbers.element,
    wheel.element,
    el(
      "div",
      { class: "panels" },
      charts.map(({ element }) => element),
    ),
  );

  let turned = null; // The sample that the wheel shows.
  const update = () => {
    if (!live.last || document.hidden) return;
    numbers.update();
    if (live.last.rings && live.last !== turned) wheel.update((turned = live.last), live.samples.at(-2));
    const picked = pick(live.samples);
    charts.forEach((chart) => chart.update(picked));
  };
  for (const event of ["sample", "history"]) live.addEventListener(event, update, { signal });
  document.addEventListener("visibilitychange", update, { signal });
  update();
}

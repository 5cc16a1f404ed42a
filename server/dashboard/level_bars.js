// Timers per level as bars, for schemes without slots.

import { el, setText } from "./dom.js";
import { count, plural } from "./format.js";

export function levelBars() {
  const list = el("ul", { class: "level-bars" });
  const total = el("p", { class: "total" });
  const element = el("div", { class: "no-slots", hidden: true }, total, list);
  return { element, update };

  function update({ scheme, entries, levels }) {
    setText(total, `${plural(entries, "timer")}, held by ${scheme}, which has no slots`);
    const most = Math.max(1, ...levels);
    while (list.children.length > levels.length) list.lastChild.remove();
    levels.forEach((held, index) => {
      const row = list.children[index] ?? list.appendChild(bar());
      setText(row.firstChild, levels.length === 1 ? `Armed: ${count(held)}` : `Level ${index}: ${count(held)}`);
      row.querySelector(".fill").style.width = `${(100 * Math.log1p(held)) / Math.log1p(most)}%`;
    });
  }
}

const bar = () => el("li", null, el("span"), el("div", { class: "bar", "aria-hidden": true }, el("div", { class: "fill" })));

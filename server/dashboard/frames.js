// List of the playground's frames, newest first.

import { el, setText, table } from "./dom.js";
import { plural, time } from "./format.js";
import { longText } from "./long_text.js";

const WAYS = { sent: ["→", "sent"], received: ["←", "received"], note: ["·", "note"] };

export function frameList(player, signal) {
  const note = el("p", { class: "note" });
  const rows = table(
    "Frames, newest first",
    [{ title: "Direction" }, { title: "Time", wide: true }, { title: "Frame" }],
    ({ at_ms, way, text }) => {
      const [sign, word] = WAYS[way];
      const cell = el("span", { class: `way ${way}` }, el("span", { "aria-hidden": true }, `${sign} `), word);
      return { cells: [cell, time(at_ms), longText(text, { data: { way } })] };
    },
    { hidden: true, more: "log" },
  );
  let due = 0;

  // Updates the list, but only once for a burst of frames.
  const update = () => {
    due ||= requestAnimationFrame(() => {
      due = 0;
      if (signal.aborted) return;
      rows.element.hidden = player.frames.length === 0;
      rows.update(player.frames.toReversed(), ({ number }) => number);
      setText(note, player.frames.length === 0 ? "No frames yet." : `The last ${plural(player.frames.length, "frame")}; at most 500 are kept.`);
    });
  };
  player.addEventListener("frame", update, { signal });
  update();
  return { note, element: rows.element };
}

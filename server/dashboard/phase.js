// Badge with the phase of a session: a word and a sign.

import { el, setText } from "./dom.js";

const SIGNS = { attached: "●", suspended: "◐", closed: "○" };

export function phaseBadge() {
  const sign = el("span", { "aria-hidden": true });
  const word = el("span");
  const element = el("span", { class: "badge" }, sign, " ", word);
  const become = (phase) => {
    element.className = `badge ${phase}`;
    setText(sign, SIGNS[phase] ?? "•");
    setText(word, phase);
  };
  return { element, become };
}

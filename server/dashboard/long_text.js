// Text of any length: its beginning, and the rest on demand.

import { el } from "./dom.js";
import { count } from "./format.js";

const SHORT = 600; // In characters.
const LONGEST = 20_000;

export function longText(text, attributes) {
  if (text.length <= 1.5 * SHORT) return el("code", { dir: "ltr", ...attributes }, text);
  const [beginning, end] = [SHORT, LONGEST].map((length) => wholeCharacters(text, length));
  const rest = text.slice(beginning, end);
  const kept = end < text.length ? `, of which ${count(rest.length)} are shown` : "";
  const summary = el("summary", null, `${count(text.length - beginning)} more characters${kept}`);
  return el(
    "div",
    null,
    el("code", { dir: "ltr", ...attributes }, text.slice(0, beginning)),
    el("details", null, summary, el("code", { dir: "ltr" }, rest)),
  );
}

// Limits a length so that it does not split a surrogate pair.
const wholeCharacters = (text, length) => (text.codePointAt(length - 1) > 0xffff ? length - 1 : length);

// Text of any length: its beginning, and the rest on demand.

import { el } from "./dom.js";
import { count } from "./format.js";

const SHORT = 600; // In characters.
const LONGEST = 20_000;

export function longText(text, attributes) {
  if (text.length <= 1.5 * SHORT) return el("code", { dir: "ltr", ...attributes }, text);
  const rest = text.slice(SHORT, LONGEST);
  const kept = text.length > LONGEST ? `, of which ${count(rest.length)} are shown` : "";
  const summary = el("summary", null, `${count(text.length - SHORT)} more characters${kept}`);
  return el(
    "div",
    null,
    el("code", { dir: "ltr", ...attributes }, text.slice(0, SHORT)),
    el("details", null, summary, el("code", { dir: "ltr" }, rest)),
  );
}

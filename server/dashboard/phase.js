// The phase of a session: a word and a sign.

import { el } from "./dom.js";

const SIGNS = { attached: "●", suspended: "◐", closed: "○" };

export const badge = (phase) => el("span", { class: `badge ${phase}` }, el("span", { "aria-hidden": true }, SIGNS[phase] ?? "•"), ` ${phase}`);

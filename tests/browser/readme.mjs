// Extracts the code in the README's section "In a browser".

import { readFileSync } from "node:fs";

const section = /^## In a browser\n(.*?)^## /ms;
const block = /^```js\n(.*?)^```$/ms;

export function codeOfReadme() {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const code = section.exec(readme)?.[1].match(block)?.[1];
  if (!code) throw new Error('the section "In a browser" of the README has no js code block');
  return code;
}

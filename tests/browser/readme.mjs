// Extracts the first block of code in a section of the README.

import { readFileSync } from "node:fs";

const block = /^```js\n(.*?)^```$/ms;

export function codeOfReadme(title = "In a browser") {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const section = new RegExp(`^##+ ${title}\n(.*?)^##`, "ms");
  const code = section.exec(readme)?.[1].match(block)?.[1];
  if (!code) throw new Error(`the section "${title}" of the README has no js code block`);
  return code;
}

// Extracts the first block of JavaScript in a document, or in a section of it.

import { readFileSync } from "node:fs";

const block = /^```js\n(.*?)^```$/ms;

export function codeOf(document, title) {
  const text = readFileSync(new URL(`../../server/docs/${document}.md`, import.meta.url), "utf8");
  const section = title ? text.split(`\n## ${title}\n`)[1] : text;
  const code = section && block.exec(section)?.[1];
  if (!code) throw new Error(`${document}.md has no block of JavaScript in "${title ?? "the page"}"`);
  return code;
}

// node example.mjs BACKEND NAME...
//
// Opens the page of tests/example at BACKEND in a browser for each NAME, and signs in. Prints the content of
// a page whenever it changes: {NAME:{"state","present","gone","messages":[...]}}. Commands on standard input:
// {"say":[NAME,TEXT]}, {"ask":[NAME]} to list who has left, and {"leave":[NAME]} to navigate to another page.
// Prints `done` once a command has started.

import { createInterface } from "node:readline";
import { openPage } from "./page.mjs";
import { emit } from "./test.mjs";

const [backend, ...names] = process.argv.slice(2);

// Runs in the page.
function emitChanges(name) {
  const text = (id) => document.getElementById(id).textContent;
  const print = () => {
    const messages = Array.from(document.querySelectorAll("#messages li"), (item) => item.textContent);
    emit({ [name]: { state: text("state"), present: text("present"), gone: text("gone"), messages } });
  };
  new MutationObserver(print).observe(document.body, { childList: true, subtree: true, characterData: true });
  print();
}

async function signIn(name) {
  const page = await openPage(backend);
  await page.fill("input[name=name]", name);
  await page.click("button");
  await page.waitForSelector("#say");
  await page.evaluate(emitChanges, name);
  return [name, page];
}

const pages = Object.fromEntries(await Promise.all(names.map(signIn)));
const commands = {
  say: async (page, text) => {
    await page.fill("input[name=text]", text);
    await page.click("#say button");
  },
  ask: (page) => page.click("#ask"),
  leave: (page) => page.goto("about:blank"),
};
for await (const line of createInterface({ input: process.stdin })) {
  for (const [kind, [name, ...rest]] of Object.entries(JSON.parse(line))) {
    await commands[kind](pages[name], ...rest);
    emit({ done: kind });
  }
}
process.exit();

// node pages.mjs example.mjs BACKEND NAME...
//
// Opens the page of tests/example at BACKEND in a browser for each NAME, and signs in. Prints the content of
// a page whenever it changes: {NAME:{"state","present","gone","messages":[...]}}. Commands on standard input:
// {"say":[NAME,TEXT]}, {"ask":[NAME]} to list who has left, and {"leave":[NAME]} to navigate to another page.
// Prints `done` once a command has started.

import { openPage } from "./page.mjs";

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

async function signIn(test, backend, name) {
  const page = await openPage(test, backend);
  await page.fill("input[name=name]", name);
  await page.click("button");
  await page.waitForSelector("#say");
  await page.evaluate(emitChanges, name);
  return [name, page];
}

const acts = {
  say: async (page, text) => {
    await page.fill("input[name=text]", text);
    await page.click("#say button");
  },
  ask: (page) => page.click("#ask"),
  leave: (page) => page.goto("about:blank"),
};

export async function run([backend, ...names], test) {
  const pages = Object.fromEntries(await Promise.all(names.map((name) => signIn(test, backend, name))));
  for await (const command of test.commands) {
    for (const [kind, [name, ...rest]] of Object.entries(command)) {
      await acts[kind](pages[name], ...rest);
      test.emit({ done: kind });
    }
  }
}

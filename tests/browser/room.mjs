// node pages.mjs room.mjs ADDRESS
//
// Opens the documents' page for one room, for the server at ADDRESS. Prints the page's paragraphs as `shown` whenever
// they change. Commands on standard input: {"leave":true} navigates to another page, {"return":true} back, and
// {"reload":true} reloads the page. Prints `done` after each command.

import { openPage } from "./page.mjs";
import { codeOf } from "./documents.mjs";

const OBSERVE = `
  const print = () => emit({ shown: Array.from(document.body.children, ({ textContent }) => textContent) });
  new MutationObserver(print).observe(document.body, { childList: true });`;

export async function run([address], test) {
  const page = await openPage(test, address);
  const code = codeOf("guides/javascript", "A page for one room").replaceAll("127.0.0.1:8000", address);
  const body = `<!DOCTYPE html><body><script type="module">${OBSERVE}</script><script type="module">${code}</script>`;
  const url = `http://${address}/room`;
  await page.route(url, (route) => route.fulfill({ contentType: "text/html", body }));
  await page.goto(url);
  const acts = { leave: () => page.goto(`http://${address}/encke.js`), return: () => page.goto(url), reload: () => page.reload() };
  for await (const command of test.commands) {
    for (const act of Object.keys(command)) {
      await acts[act]();
      test.emit({ done: act });
    }
  }
}

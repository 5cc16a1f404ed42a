// node pages.mjs client_page.mjs BASE OPTIONS ADDRESS
//
// Like client.mjs, in pages of the server at ADDRESS, which import the client from there. Prints the URL of each
// WebSocket. There are two more commands: {"fire":EVENT} dispatches an event, and {"leave":true} navigates to
// another page.

import { drive, obey } from "./drive.mjs";
import { openTabs } from "./page.mjs";

export async function run([base, json, address], test) {
  const { tabs = 1, ...options } = JSON.parse(json);
  const pages = await openTabs(test, address, tabs);
  const start = async (page, tab) => {
    const label = tabs > 1 ? { tab } : {};
    page.on("websocket", (socket) => test.emit({ socket: socket.url(), ...label }));
    await page.evaluate(
      async ([drive, module, base, options, label]) => {
        const { connect } = await import(module);
        const print = (object) => emit({ ...object, ...label });
        globalThis.client = eval(`(${drive})`)(connect, base, options, print);
      },
      [String(drive), `http://${address}/encke.js`, base, options, label],
    );
  };
  await Promise.all(pages.map(start));
  const methods = {
    ask: (tab, call) => pages[tab].evaluate((call) => client(call), call),
    fire: (tab, type) => pages[tab].evaluate((type) => dispatchEvent(new Event(type)), type),
    leave: (tab) => pages[tab].goto("about:blank"),
  };
  await obey(test.commands, methods, test.emit);
}

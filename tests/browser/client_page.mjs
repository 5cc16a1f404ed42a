// node pages.mjs client_page.mjs BASE OPTIONS ADDRESS
//
// Like client.mjs, in pages of the server at ADDRESS, which import the client from there. Prints the URL of each
// WebSocket. More commands: {"fire":EVENT} dispatches an event; {"leave":true} navigates to a page without a
// client; {"return":OPTIONS} navigates to a page with a client, which has these options in addition;
// {"duplicate":true} opens another tab, with a copy of the tab's storage and without a client.

import { drive, obey } from "./drive.mjs";
import { openTabs } from "./page.mjs";

export async function run([base, json, address], test) {
  const { tabs = 1, ...options } = JSON.parse(json);
  const pages = await openTabs(test, address, tabs);
  const start = async (page, tab, more) => {
    const label = tab > 0 || tabs > 1 ? { tab } : {};
    page.on("websocket", (socket) => test.emit({ socket: socket.url(), ...label }));
    await page.evaluate(
      async ([drive, module, base, options, label]) => {
        const { connect } = await import(module);
        const print = (object) => emit({ ...object, ...label });
        globalThis.client = eval(`(${drive})`)(connect, base, options, print);
      },
      [String(drive), `http://${address}/encke.js`, base, { ...options, ...more }, label],
    );
  };
  await Promise.all(pages.map((page, tab) => start(page, tab)));
  const methods = {
    ask: (tab, call) => pages[tab].evaluate((call) => client(call), call),
    fire: (tab, type) => pages[tab].evaluate((type) => dispatchEvent(new Event(type)), type),
    leave: (tab) => pages[tab].goto(`http://${address}/encke.js`),
    return: async (tab, more) => {
      await pages[tab].goto(`http://${address}/`);
      await start(pages[tab], tab, more);
    },
    duplicate: async (tab) => {
      const [copy] = await Promise.all([
        pages[tab].waitForEvent("popup"),
        pages[tab].evaluate(() => void open(location.href)),
      ]);
      await copy.exposeFunction("emit", test.emit);
      pages.push(copy);
    },
  };
  await obey(test.commands, methods, test.emit);
}

// node client.mjs WHERE ADDRESS BASE OPTIONS
//
// The client of server/client: WHERE is `node`, or `page`, one from the server at ADDRESS, which imports the client from there. It
// connects to BASE with these OPTIONS, in JSON: those of `connect`; `tokens`, of which each connection takes the next, or the last (null never comes); `ws`
// for the WebSocket of npm in node; `tabs`, how many clients there are. Prints what they hear, with when, and `tab` if there are several.
// A line on standard input makes a client do something: {"ask":[METHOD,...ARGUMENTS],"tab":0}, which prints `answer` or `failed`, with
// `asked` as it was given; or, in a page, {"fire":EVENT} or {"leave":true} for another page. `done` is printed once it has begun.

import { createInterface } from "node:readline";
import { drive } from "./drive.mjs";
import { openTabs } from "./page.mjs";
import { tell } from "./test.mjs";

const [where, address, base, json] = process.argv.slice(2);
const { tabs = 1, ...options } = JSON.parse(json);
const label = (tab) => (object) => tell(tabs > 1 ? { ...object, tab } : object);

async function inNode() {
  const { connect } = await import("../../server/client/encke.js");
  const { WebSocket } = options.ws ? await import("ws") : {};
  const clients = Array.from({ length: tabs }, (_, tab) => drive(connect, base, { ...options, WebSocket }, label(tab)));
  return { ask: (tab, object) => clients[tab](object) };
}

async function inPages() {
  const pages = await openTabs(address, tabs);
  const begin = async (page, tab) => {
    page.on("websocket", (socket) => label(tab)({ socket: socket.url() }));
    await page.evaluate(
      async ([drive, module, base, options, label]) => {
        const { connect } = await import(module);
        const tellAll = (object) => tell({ ...object, ...label });
        globalThis.client = eval(`(${drive})`)(connect, base, options, tellAll);
      },
      [String(drive), `http://${address}/encke.js`, base, options, tabs > 1 ? { tab } : {}],
    );
  };
  await Promise.all(pages.map(begin));
  return {
    ask: (tab, object) => pages[tab].evaluate((object) => client(object), object),
    fire: (tab, type) => pages[tab].evaluate((type) => dispatchEvent(new Event(type)), type),
    leave: (tab) => pages[tab].goto("about:blank"),
  };
}

const does = where === "node" ? await inNode() : await inPages();
tell({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { tab = 0, ...command } = JSON.parse(line);
  for (const [kind, body] of Object.entries(command)) {
    await does[kind](tab, body);
    tell({ done: kind });
  }
}
process.exit();

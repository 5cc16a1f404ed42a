// node client.mjs WHERE ADDRESS BASE OPTIONS
//
// Runs the client of server/client in `node`, or in a `page` of the server at ADDRESS, which imports the
// client from there. The client connects to BASE. OPTIONS is a JSON object with the options of `connect`, and
//
// - `tokens`: each connection uses the next token, and finally the last one (null: a token that never
//   arrives);
// - `ws`: in node, use the WebSocket of npm's `ws`;
// - `tabs`: the number of clients.
//
// Prints the events of the clients with the time, and with `tab` if there are several clients. A line on
// standard input is a command: {"ask":[METHOD,...ARGUMENTS],"tab":0} calls a method, and prints `answer` or
// `failed`, with the call in `asked`. In a page, {"fire":EVENT} dispatches an event, and {"leave":true}
// navigates to another page. Prints `done` once the command has started.

import { createInterface } from "node:readline";
import { drive } from "./drive.mjs";
import { emit } from "./test.mjs";

const [where, address, base, json] = process.argv.slice(2);
const { tabs = 1, ...options } = JSON.parse(json);
const label = (tab) => (object) => emit(tabs > 1 ? { ...object, tab } : object);

async function inNode() {
  const { connect } = await import("../../server/client/encke.js");
  const { WebSocket } = options.ws ? await import("ws") : {};
  const clients = Array.from({ length: tabs }, (_, tab) => drive(connect, base, { ...options, WebSocket }, label(tab)));
  return { ask: (tab, object) => clients[tab](object) };
}

async function inPages() {
  // Loading the driver of the browser takes a second of CPU time, which clients in node do not need.
  const { openTabs } = await import("./page.mjs");
  const pages = await openTabs(address, tabs);
  const start = async (page, tab) => {
    page.on("websocket", (socket) => label(tab)({ socket: socket.url() }));
    await page.evaluate(
      async ([drive, module, base, options, label]) => {
        const { connect } = await import(module);
        const print = (object) => emit({ ...object, ...label });
        globalThis.client = eval(`(${drive})`)(connect, base, options, print);
      },
      [String(drive), `http://${address}/encke.js`, base, options, tabs > 1 ? { tab } : {}],
    );
  };
  await Promise.all(pages.map(start));
  return {
    ask: (tab, object) => pages[tab].evaluate((object) => client(object), object),
    fire: (tab, type) => pages[tab].evaluate((type) => dispatchEvent(new Event(type)), type),
    leave: (tab) => pages[tab].goto("about:blank"),
  };
}

const commands = where === "node" ? await inNode() : await inPages();
emit({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { tab = 0, ...command } = JSON.parse(line);
  for (const [kind, body] of Object.entries(command)) {
    await commands[kind](tab, body);
    emit({ done: kind });
  }
}
process.exit();

// node client.mjs BASE OPTIONS
//
// Runs the client of server/client in node. It connects to BASE. OPTIONS is a JSON object with the options of
// `connect`, and
//
// - `tokens`: each connection uses the next token, and finally the last one (null: a token that never
//   arrives);
// - `ws`: use the WebSocket of npm's `ws`;
// - `tabs`: the number of clients.
//
// Prints the events of the clients with the time, and with `tab` if there are several clients. A line on
// standard input is a command: {"ask":[METHOD,...ARGUMENTS],"tab":0} calls a method, and prints `answer` or
// `failed`, with the call in `asked`. Prints `done` once the command has started.

import { connect } from "../../server/client/encke.js";
import { drive, obey } from "./drive.mjs";
import { emit, objectsFrom } from "./test.mjs";

const { tabs = 1, ws, ...options } = JSON.parse(process.argv[3]);
const { WebSocket } = ws ? await import("ws") : {};
const clients = Array.from({ length: tabs }, (_, tab) => {
  const print = (object) => emit(tabs > 1 ? { ...object, tab } : object);
  return drive(connect, process.argv[2], { ...options, WebSocket }, print);
});

await obey(objectsFrom(process.stdin), { ask: (tab, call) => clients[tab](call) }, emit);
process.exit();

// node session_outside.mjs ADDRESS CHANNEL...
//
// Runs the client of client-by-hand.md outside a browser, with the WebSocket of npm's `ws` and no `pagehide` events.
// Prints the arguments of `receive`.

import { WebSocket } from "ws";
import { codeOf } from "./documents.mjs";
import { emit, untilTestEnds } from "./test.mjs";

const [address, ...channels] = process.argv.slice(2);

// As in a browser, an error reveals nothing and needs no listener.
class PageWebSocket extends WebSocket {
  constructor(url) {
    super(url);
    this.on("error", () => {});
  }
}

const encke = new Function("WebSocket", "addEventListener", `${codeOf("guides/client-by-hand")}; return encke;`)(PageWebSocket, () => {});
encke(`ws://${address}/ws`, channels, emit);
await untilTestEnds();
process.exit();

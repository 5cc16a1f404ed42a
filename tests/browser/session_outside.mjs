// node session_outside.mjs ADDRESS CHANNEL...
//
// The README's client outside a browser: the WebSocket is that of npm's `ws`, and the page never goes away. Prints what `receive` gets.

import { WebSocket } from "ws";
import { codeOfReadme } from "./readme.mjs";
import { tell, untilTestEnds } from "./test.mjs";

const [address, ...channels] = process.argv.slice(2);

// A browser tells a page nothing of why a connection broke, and asks nobody to listen.
class PageWebSocket extends WebSocket {
  constructor(url) {
    super(url);
    this.on("error", () => {});
  }
}

const encke = new Function("WebSocket", "addEventListener", `${codeOfReadme()}; return encke;`)(PageWebSocket, () => {});
encke(`ws://${address}/ws`, channels, tell);
await untilTestEnds();
process.exit();

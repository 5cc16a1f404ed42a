// node session.mjs ADDRESS SESSIONS CHANNEL...
//
// A page from the server at ADDRESS that runs the README's client against the server at SESSIONS. Prints the URL of each
// WebSocket, and what `receive` gets, and when.

import { openPage } from "./page.mjs";
import { codeOfReadme } from "./readme.mjs";
import { tell } from "./test.mjs";

const [address, sessions, ...channels] = process.argv.slice(2);
const page = await openPage(address);
page.on("websocket", (socket) => tell({ socket: socket.url() }));
await page.addScriptTag({ content: codeOfReadme() });
await page.evaluate(
  ([url, channels]) => encke(url, channels, (object) => tell({ at_ms: performance.now(), ...object })),
  [`ws://${sessions}/ws`, channels],
);

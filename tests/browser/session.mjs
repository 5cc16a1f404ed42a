// node pages.mjs session.mjs ADDRESS SESSIONS CHANNEL... [token=TOKEN...]
//
// Opens a page of the server at ADDRESS that runs the client of client-by-hand.md against the server at SESSIONS. Each
// connection uses the next token. Prints the URL of each WebSocket, and the arguments of `receive` with the
// time. Commands on standard input: {"publish":[CHANNEL,DATA]}, whose result is printed, {"close":true}, and
// {"leave":true} to navigate to another page.

import { openPage } from "./page.mjs";
import { codeOf } from "./documents.mjs";

const isToken = (argument) => argument.startsWith("token=");

export async function run([address, sessions, ...rest], test) {
  const { emit, commands } = test;
  const channels = rest.filter((argument) => !isToken(argument));
  const tokens = rest.filter(isToken).map((argument) => argument.slice("token=".length));
  const page = await openPage(test, address);
  page.on("websocket", (socket) => emit({ socket: socket.url() }));
  await page.addScriptTag({ content: codeOf("guides/client-by-hand") });
  await page.evaluate(
    ([url, channels, tokens]) => {
      const token = tokens.length > 0 ? async () => tokens.shift() : undefined;
      globalThis.client = encke(url, channels, (object) => emit({ at_ms: performance.now(), ...object }), token);
    },
    [`ws://${sessions}/ws`, channels, tokens],
  );
  emit({ ready: true });

  for await (const { publish, close, leave } of commands) {
    if (publish) emit({ published: (await page.evaluate((args) => client.publish(...args), publish)) ?? null });
    if (close) await page.evaluate(() => client.close());
    if (leave) await page.goto("about:blank");
  }
}

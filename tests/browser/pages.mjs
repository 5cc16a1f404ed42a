// node pages.mjs [SCRIPT ARGUMENT...]
//
// Runs scripts that open pages in Chromium. With arguments, runs one script over standard input and output.
// Without, runs scripts for all tests of a process, because it takes seconds of CPU time to load Playwright and
// to start Chromium: prints {"port":PORT}, and runs a script for each connection, whose first line is the JSON
// array [SCRIPT,ARGUMENT...].
//
// A script exports `run(arguments, test)`: `test.emit` prints an object, `test.commands` iterates over the
// objects that the test sends, and `test.newContext` opens a browser context, which closes when the test ends.
// `test.fail` ends the script with an error.

import { createServer } from "node:net";
import { chromium } from "playwright-core";
import { emit, objectsFrom, untilTestEnds } from "./test.mjs";

// This build of Chromium has no user interface. Its sandbox does not work as root.
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium-headless-shell", chromiumSandbox: false });

async function runScript(input, output, request) {
  const contexts = [];
  const close = () => contexts.forEach((context) => context.close());
  input.once("close", close);
  // A reset connection is closed, too.
  input.on("error", () => {});
  const fail = (error) => {
    if (!input.destroyed) console.error(error);
    input.destroy();
  };
  const newContext = async (options) => {
    const context = await browser.newContext(options);
    contexts.push(context);
    if (input.destroyed) close();
    return context;
  };
  const emit = (object) => output.write(`${JSON.stringify(object)}\n`);
  try {
    const commands = objectsFrom(input);
    const [name, ...args] = request ?? (await commands.next()).value;
    const { run } = await import(`./${name}`);
    await run(args, { emit, commands, newContext, fail });
    for await (const _ of commands);
  } catch (error) {
    fail(error);
  }
}

const request = process.argv.slice(2);
if (request.length > 0) {
  await runScript(process.stdin, process.stdout, request);
} else {
  const server = createServer((connection) => runScript(connection, connection));
  server.listen(0, "127.0.0.1", () => emit({ port: server.address().port }));
  await untilTestEnds();
}
await browser.close();
process.exit();

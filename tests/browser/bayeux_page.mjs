// node pages.mjs bayeux_page.mjs ADDRESS SERVER TABS
//
// Opens tabs of one browser on pages of the server at ADDRESS, each with a client of the Bayeux server at
// SERVER. TABS is a JSON array with an object per tab: "client" ("cometd" or "faye"), "transport"
// ("long-polling"; by default the client chooses) and "subscribe" (channels). Prints the objects that
// bayeux_script.mjs describes, each key followed by "@" and the number of the tab, counted from 1:
// {"message@1":{...}}. Commands on standard input: {"tab":1,"publish":[CHANNEL,DATA]},
// {"tab":1,"disconnect":true}, {"tab":1,"reload":true}, which uses CometD's reload extension, and
// {"tab":1,"close":true}.

import { fileURLToPath } from "node:url";
import { openTabs } from "./page.mjs";

const packages = fileURLToPath(new URL("node_modules", import.meta.url));

// Runs in the page.
function useCometd([tab, url, { transport, subscribe = [] }]) {
  const { CometD, AckExtension, ReloadExtension } = globalThis.lib;
  const print = (key, value) => emit({ [`${key}@${tab}`]: value });
  const cometd = new CometD();
  globalThis.client = cometd;
  if (transport) cometd.getTransportTypes().filter((type) => type !== transport).forEach((type) => cometd.unregisterTransport(type));
  cometd.registerExtension("ack", new AckExtension());
  cometd.registerExtension("reload", new ReloadExtension());
  const subscribeTo = (by) => cometd.subscribe(by, ({ channel, data }) => print("message", { channel, data, by }));
  cometd.addListener("/meta/handshake", (reply) => {
    if (reply.successful) cometd.batch(() => subscribe.forEach(subscribeTo));
    print("handshake", reply);
  });
  for (const kind of ["connect", "subscribe", "publish", "disconnect"]) {
    cometd.addListener(`/meta/${kind}`, ({ failure, ...reply }) => {
      print(kind, reply);
      if (kind === "connect" && reply.successful) print("transport", cometd.getTransport().type);
    });
  }
  cometd.configure({ url, logLevel: "warn", backoffIncrement: 200 });
  cometd.handshake();
}

// Runs in the page.
function useFaye([tab, url, { transport, subscribe = [] }]) {
  const print = (key, value) => emit({ [`${key}@${tab}`]: value });
  const client = new Faye.Client(url, { retry: 0.5 });
  globalThis.client = client;
  if (transport === "long-polling") client.disable("websocket");
  client.addExtension({
    outgoing(message, callback) {
      if (message.connectionType) print("transport", message.connectionType);
      callback(message);
    },
    incoming(message, callback) {
      if (message.channel.startsWith("/meta/")) print(message.channel.slice("/meta/".length), message);
      else if (message.successful !== undefined) print("publish", message);
      callback(message);
    },
  });
  for (const by of subscribe) client.subscribe(by).withChannel((channel, data) => print("message", { channel, data, by }));
}

async function load(page, tab, url, options) {
  if (options.client === "faye") {
    await page.addScriptTag({ path: `${packages}/faye/client/faye-browser-min.js` });
    return page.evaluate(useFaye, [tab, url, options]);
  }
  const content = `
    import { CometD } from "/packages/cometd/cometd.js";
    import { AckExtension } from "/packages/cometd/AckExtension.js";
    import { ReloadExtension } from "/packages/cometd/ReloadExtension.js";
    globalThis.lib = { CometD, AckExtension, ReloadExtension };`;
  await page.addScriptTag({ type: "module", content });
  await page.waitForFunction(() => globalThis.lib);
  return page.evaluate(useCometd, [tab, url, options]);
}

export async function run([address, server, text], test) {
  const [tabs, url] = [JSON.parse(text), `http://${server}/bayeux`];
  const pages = await openTabs(test, address, tabs.length);
  for (const [index, page] of pages.entries()) {
    // Serve the packages from the page's origin, as a web server next to Encke would.
    await page.route("**/packages/**", (route) =>
      route.fulfill({ path: packages + new URL(route.request().url()).pathname.slice("/packages".length) }),
    );
    await load(page, index + 1, url, tabs[index]);
  }
  test.emit({ ready: true });

  for await (const { tab, publish, disconnect, reload, close } of test.commands) {
    const page = pages[tab - 1];
    if (publish) await page.evaluate(([channel, data]) => void client.publish(channel, data), publish);
    if (disconnect) await page.evaluate(() => void client.disconnect());
    if (close) await page.close();
    if (reload) {
      await page.evaluate(() => client.reload());
      await page.reload();
      await load(page, tab, url, tabs[tab - 1]);
    }
  }
}

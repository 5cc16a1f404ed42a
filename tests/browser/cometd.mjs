// node cometd.mjs URL OPTIONS
//
// Runs CometD's client outside a browser. OPTIONS is a JSON object: "transport" ("long-polling" or
// "websocket"; by default the client chooses), "subscribe" (channels to subscribe to after the first
// handshake), "ack" (whether to use the extension), and options of `configure`. For output and commands see
// bayeux_script.mjs.

import { adapt } from "cometd-nodejs-client";
import { obey, tellIncoming } from "./bayeux_script.mjs";
import { tell } from "./test.mjs";

adapt();
const { CometD } = await import("cometd");
const { AckExtension } = await import("cometd/AckExtension.js");

const [url, options] = process.argv.slice(2);
const { transport, subscribe = [], ack, ...configuration } = JSON.parse(options ?? "{}");
const cometd = new CometD();
if (transport) cometd.getTransportTypes().filter((type) => type !== transport).forEach((type) => cometd.unregisterTransport(type));
if (ack) cometd.registerExtension("ack", new AckExtension());
cometd.registerExtension("told", { incoming: tellIncoming });

// A handshake discards all subscriptions, so the page subscribes again.
const followed = new Map(subscribe.map((channel) => [channel, undefined]));
const follow = (by) => followed.set(by, cometd.subscribe(by, ({ channel, data }) => tell({ message: { channel, data, by } })));
cometd.addListener("/meta/handshake", ({ successful }) => {
  if (successful) cometd.batch(() => [...followed.keys()].forEach(follow));
});
let used;
cometd.addListener("/meta/connect", ({ successful, failure }) => {
  if (failure) tell({ failed: failure.reason ?? failure.httpCode ?? null });
  if (!successful || used === cometd.getTransport().type) return;
  used = cometd.getTransport().type;
  tell({ transport: used });
});
cometd.addListener("/meta/disconnect", () => tell({ disconnected: true }));

cometd.configure({ url, logLevel: "warn", backoffIncrement: 200, maxNetworkDelay: 5000, ...configuration });
cometd.handshake();
obey({
  subscribe: follow,
  unsubscribe(channel) {
    cometd.unsubscribe(followed.get(channel));
    followed.delete(channel);
  },
  publish: ([channel, data]) => cometd.publish(channel, data),
  call: ([target, data]) => cometd.remoteCall(target, data, ({ successful, data }) => tell({ called: { successful, data } })),
  disconnect: () => cometd.disconnect(),
});

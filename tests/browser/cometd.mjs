// node cometd.mjs URL OPTIONS
//
// Runs CometD's client outside a browser. OPTIONS is a JSON object: "transport" ("long-polling" or
// "websocket"; by default the client chooses), "subscribe" (channels to subscribe to after the first
// handshake), "ack" (whether to use the acknowledgement extension), and options of `configure`. For output
// and commands see bayeux_script.mjs.

import { adapt } from "cometd-nodejs-client";
import { obey, emitIncoming } from "./bayeux_script.mjs";
import { emit } from "./test.mjs";

adapt();
const { CometD } = await import("cometd");
const { AckExtension } = await import("cometd/AckExtension.js");

const [url, options] = process.argv.slice(2);
const { transport, subscribe = [], ack, ...configuration } = JSON.parse(options ?? "{}");
const cometd = new CometD();
if (transport) cometd.getTransportTypes().filter((type) => type !== transport).forEach((type) => cometd.unregisterTransport(type));
if (ack) cometd.registerExtension("ack", new AckExtension());
cometd.registerExtension("print", { incoming: emitIncoming });

// Resubscribe after each handshake, which discards all subscriptions.
const subscriptions = new Map(subscribe.map((channel) => [channel, undefined]));
const subscribeTo = (by) => subscriptions.set(by, cometd.subscribe(by, ({ channel, data }) => emit({ message: { channel, data, by } })));
cometd.addListener("/meta/handshake", ({ successful }) => {
  if (successful) cometd.batch(() => [...subscriptions.keys()].forEach(subscribeTo));
});
let used;
cometd.addListener("/meta/connect", ({ successful, failure }) => {
  if (failure) emit({ failed: failure.reason ?? failure.httpCode ?? null });
  if (!successful || used === cometd.getTransport().type) return;
  used = cometd.getTransport().type;
  emit({ transport: used });
});
cometd.addListener("/meta/disconnect", () => emit({ disconnected: true }));

cometd.configure({ url, logLevel: "warn", backoffIncrement: 200, maxNetworkDelay: 5000, ...configuration });
cometd.handshake();
obey({
  subscribe: subscribeTo,
  unsubscribe(channel) {
    cometd.unsubscribe(subscriptions.get(channel));
    subscriptions.delete(channel);
  },
  publish: ([channel, data]) => cometd.publish(channel, data),
  call: ([target, data]) => cometd.remoteCall(target, data, ({ successful, data }) => emit({ called: { successful, data } })),
  disconnect: () => cometd.disconnect(),
});

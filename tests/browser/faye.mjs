// node faye.mjs URL OPTIONS
//
// Runs Faye's client outside a browser. OPTIONS is a JSON object: "transport" ("long-polling"; by default the
// client chooses WebSocket), "subscribe" (channels to subscribe to after the first handshake), and options of
// the constructor. For output and commands see bayeux_script.mjs.

import faye from "faye";
import { obey, emitIncoming } from "./bayeux_script.mjs";
import { emit } from "./test.mjs";

const [url, options] = process.argv.slice(2);
const { transport, ack, subscribe = [], ...configuration } = JSON.parse(options ?? "{}");
const client = new faye.Client(url, { retry: 0.5, ...configuration });
if (transport === "long-polling") client.disable("websocket");
let used;
client.addExtension({
  outgoing(message, callback) {
    if (message.connectionType && message.connectionType !== used) emit({ transport: (used = message.connectionType) });
    callback(message);
  },
  incoming(message, callback) {
    emitIncoming(message);
    callback(message);
  },
});
client.on("transport:down", () => emit({ failed: null }));

const subscriptions = new Map();
const subscribeTo = (by) =>
  subscriptions.set(by, client.subscribe(by).withChannel((channel, data) => emit({ message: { channel, data, by } })));
client.connect();
subscribe.forEach(subscribeTo);
obey({
  subscribe: subscribeTo,
  unsubscribe: (channel) => subscriptions.get(channel).cancel(),
  publish: ([channel, data]) => client.publish(channel, data).then(() => {}, () => {}),
  disconnect: () => client.disconnect().then(() => emit({ disconnected: true })),
});

// node faye.mjs URL OPTIONS
//
// Runs Faye's client outside a browser. OPTIONS is a JSON object: "transport" ("long-polling"; by default the
// client chooses WebSocket), "subscribe" (channels to subscribe to after the first handshake), and options of
// the constructor. For output and commands see bayeux_script.mjs.

import faye from "faye";
import { obey, tellIncoming } from "./bayeux_script.mjs";
import { tell } from "./test.mjs";

const [url, options] = process.argv.slice(2);
const { transport, ack, subscribe = [], ...configuration } = JSON.parse(options ?? "{}");
const client = new faye.Client(url, { retry: 0.5, ...configuration });
if (transport === "long-polling") client.disable("websocket");
let used;
client.addExtension({
  outgoing(message, callback) {
    if (message.connectionType && message.connectionType !== used) tell({ transport: (used = message.connectionType) });
    callback(message);
  },
  incoming(message, callback) {
    tellIncoming(message);
    callback(message);
  },
});
client.on("transport:down", () => tell({ failed: null }));

const followed = new Map();
const follow = (by) =>
  followed.set(by, client.subscribe(by).withChannel((channel, data) => tell({ message: { channel, data, by } })));
client.connect();
subscribe.forEach(follow);
obey({
  subscribe: follow,
  unsubscribe: (channel) => followed.get(channel).cancel(),
  publish: ([channel, data]) => client.publish(channel, data).then(() => {}, () => {}),
  disconnect: () => client.disconnect().then(() => tell({ disconnected: true })),
});

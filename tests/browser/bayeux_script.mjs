// What the scripts of Bayeux clients have in common. Each prints every message that came from the server, under the last part of
// its channel if that is a meta channel ({"handshake":{...}}), else under "publish" (a reply) or "came" (an event), and under "message"
// each event that a subscription was given.

import { createInterface } from "node:readline";
import { tell } from "./test.mjs";

// Commands are lines on standard input (CometD's has {"call":[TARGET,DATA]}, too): {"subscribe":CHANNEL}, {"unsubscribe":CHANNEL}, {"publish":[CHANNEL,DATA]} and {"disconnect":true}.
// The script ends with it, and leaves without a word.
export async function obey(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [[name, argument]] = Object.entries(JSON.parse(line));
    commands[name](argument);
  }
  process.exit();
}

export function tellIncoming(message) {
  const { channel, data } = message;
  if (channel.startsWith("/meta/")) tell({ [channel.slice("/meta/".length)]: message });
  else if (message.successful !== undefined) tell({ publish: message });
  else tell({ came: { channel, data } });
}

// Code shared by the scripts that run Bayeux clients. Each script prints every message from the server:
// messages on a meta channel under the last part of the channel ({"handshake":{...}}), others under "publish"
// (a reply) or "came" (an event). It also prints each event that a subscription's callback receives, under
// "message".

import { emit, objectsFrom } from "./test.mjs";

// Executes commands, one JSON object per line on standard input: {"subscribe":CHANNEL},
// {"unsubscribe":CHANNEL}, {"publish":[CHANNEL,DATA]} and {"disconnect":true}; for CometD also
// {"call":[TARGET,DATA]}. The script exits when its standard input ends, without disconnecting.
export async function obey(commands) {
  for await (const command of objectsFrom(process.stdin)) {
    const [[name, argument]] = Object.entries(command);
    commands[name](argument);
  }
  process.exit();
}

export function emitIncoming(message) {
  const { channel, data } = message;
  if (channel.startsWith("/meta/")) emit({ [channel.slice("/meta/".length)]: message });
  else if (message.successful !== undefined) emit({ publish: message });
  else emit({ came: { channel, data } });
}

// node event_source.mjs ADDRESS CHANNELS
//
// Runs the EventSource of npm's `eventsource`. Prints the objects received, and `readyState` at each error.

import { EventSource } from "eventsource";
import { emit, untilTestEnds } from "./test.mjs";

const [address, channels] = process.argv.slice(2);
const source = new EventSource(`http://${address}/events?channels=${channels}`);
source.onmessage = ({ data }) => emit(JSON.parse(data));
source.onerror = () => emit({ error: source.readyState });
await untilTestEnds();
source.close();

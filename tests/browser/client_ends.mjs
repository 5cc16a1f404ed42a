// node client_ends.mjs BASE TRANSPORTS
//
// Connects, publishes and closes. Node then exits, because nothing keeps its event loop alive, and the script
// prints the client's state. Does not read standard input.

import { WebSocket } from "ws";
import { connect } from "../../server/client/encke.js";
import { emit } from "./test.mjs";

const [base, transports] = process.argv.slice(2);
const client = connect(base, { channels: ["news"], transports: JSON.parse(transports), WebSocket });
process.on("exit", () => emit({ ends: client.state }));
await client.publish("news", 1);
await client.close();

// node servers.mjs PING_INTERVAL_MS PING_TIMEOUT_MS HOLD_MS
//
// Runs two servers from npm with these timeouts: a WebSocket server that pings, and Faye, which holds polls.
// Prints their ports.

import { createServer } from "node:http";
import faye from "faye";
import { WebSocketServer } from "ws";
import { emit, untilTestEnds } from "./test.mjs";

const [pingInterval, pingTimeout, hold] = process.argv.slice(2).map(Number);

const plain = new WebSocketServer({ port: 0, host: "127.0.0.1" }, () => emit({ plain: plain.address().port }));
plain.on("connection", (socket) => {
  let timer;
  const ping = () => {
    socket.ping();
    timer = setTimeout(() => socket.terminate(), pingTimeout);
  };
  socket.on("pong", () => {
    clearTimeout(timer);
    timer = setTimeout(ping, pingInterval);
  });
  socket.on("close", () => clearTimeout(timer));
  socket.on("error", () => {}); // A client may disconnect.
  ping();
});

const polled = createServer();
new faye.NodeAdapter({ mount: "/bayeux", timeout: hold / 1000 }).attach(polled);
polled.listen(0, "127.0.0.1", () => emit({ faye: polled.address().port }));

await untilTestEnds();
plain.close();
process.exit();

// node servers.mjs PING_INTERVAL_MS PING_TIMEOUT_MS WINDOW_MS HOLD_MS
//
// Runs three servers from npm with these timeouts: Socket.IO, a WebSocket server that pings, and Faye, which
// holds polls. Prints their ports. Socket.IO sends an event to each client that connects, and one to all
// clients every 100 ms.

import { createServer } from "node:http";
import faye from "faye";
import { Server } from "socket.io";
import { WebSocketServer } from "ws";
import { emit, untilTestEnds } from "./test.mjs";

const [pingInterval, pingTimeout, maxDisconnectionDuration, hold] = process.argv.slice(2).map(Number);

const http = createServer();
const io = new Server(http, { pingInterval, pingTimeout, connectionStateRecovery: { maxDisconnectionDuration } });
io.on("connection", (socket) => socket.emit("news", { first: true }));
const news = setInterval(() => io.emit("news", { at_ms: Date.now() }), 100);
http.listen(0, "127.0.0.1", () => emit({ socketio: http.address().port }));

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
clearInterval(news);
io.close();
plain.close();
process.exit();

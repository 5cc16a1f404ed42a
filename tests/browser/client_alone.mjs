// node client_alone.mjs
//
// Tests rules of the client that depend on server behaviour which is rare or hard to time, with a fake
// WebSocket. Prints the number of rules, and the name of each rule that holds.

import assert from "node:assert/strict";
import { connect } from "../../server/client/encke.js";
import { emit } from "./test.mjs";

/** A fake WebSocket. `all` lists the sockets that the client has opened, the newest last. */
class Socket {
  static all = [];
  sent = [];
  constructor(url) {
    this.url = String(url);
    this.query = Object.fromEntries(new URL(url).searchParams);
    Socket.all.push(this);
    // It only ends the session.
    if (!this.query.heartbeat) queueMicrotask(() => (this.onopen(), this.closes(1000)));
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.isClosed = true;
  }
  receives(...objects) {
    for (const object of objects) this.onmessage?.({ data: JSON.stringify(object) });
  }
  closes(code, reason = "") {
    this.onclose?.({ code, reason });
  }
}

const turn = () => new Promise((resolve) => setTimeout(resolve));
const refuse = (id, code, message = "") => ({ reply: { id, error: { code, message } } });
const hello = (session, seq, recovered) => ({
  hello: { session, resume: session, recovered, seq, ping_interval_ms: 60_000, pong_timeout_ms: 60_000, reconnect_window_ms: 60_000 },
});
const message = (seq, channel = "news", offset = seq) => ({ message: { seq, channel, offset, data: seq } });
const subscribed = ({ id, subscribe: { channel } }, offset = 0) => ({ reply: { id, ok: { channel, epoch: "e", offset } } });

async function begin(options) {
  Socket.all.length = 0;
  const client = connect("http://127.0.0.1:1", { WebSocket: Socket, transports: ["websocket"], ...options });
  const events = [];
  for (const type of ["message", "gap", "state", "unsubscribed", "subscribed", "goaway", "fallback"]) {
    client.on(type, (body) => events.push([type, body]));
  }
  await turn();
  return { client, of: (wanted) => events.filter(([type]) => type === wanted).map(([, body]) => body) };
}

/** Waits until the client has opened `count` sockets, and returns the newest. */
async function next(count) {
  for (const since = Date.now(); Socket.all.length < count; await turn()) assert(Date.now() - since < 15_000, "the client reconnects");
  return Socket.all.at(-1);
}

/** Runs `test`, and returns the warnings that the client printed. */
async function warningsOf(test) {
  const warnings = [];
  const { warn } = console;
  console.warn = (...parts) => warnings.push(parts.join(" "));
  try {
    await test();
  } finally {
    console.warn = warn;
  }
  return warnings;
}

const rules = {
  async "a message that arrives before the reply to its subscription is held until then, and not acknowledged"() {
    const { client, of } = await begin({ channels: ["news", "chat"] });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    first.receives(subscribed(first.sent[1]), message(1, "chat"));
    first.closes(1006);
    // The reply was lost, but the server had executed the command and sends messages.
    const second = await next(2);
    assert.deepEqual(second.query, { heartbeat: "message", resume: "a", seq: "1" });
    second.receives(hello("a", 1, true), message(2), message(3, "chat"), { ping: { seq: 3 } });
    await turn();
    assert.deepEqual(second.sent.map((object) => Object.keys(object).pop()), ["subscribe", "pong"]);
    assert.deepEqual(second.sent[1], { pong: { seq: 1 } });
    assert.deepEqual(of("message").map(({ seq }) => seq), [1]);
    second.receives(subscribed(second.sent[0], 9), { ping: { seq: 3 } });
    await turn();
    assert.deepEqual(of("message").map(({ seq }) => seq), [1, 2, 3]);
    assert.deepEqual(second.sent[2], { pong: { seq: 3 } });
    // In a new session, the client subscribes from the last offset it received.
    second.closes(1006);
    const third = await next(3);
    third.receives(hello("b", 0, false));
    const since = third.sent.map(({ subscribe }) => subscribe.since);
    assert.deepEqual(since, [{ epoch: "e", offset: 2 }, { epoch: "e", offset: 3 }]);
    await client.close();
  },

  async "held messages are limited, and are delivered again after a reconnect"() {
    const { client, of } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    for (let seq = 1; seq <= 1024; seq += 1) first.receives(message(seq));
    assert(!first.isClosed);
    first.receives(message(1025));
    assert(first.isClosed);
    const second = await next(2);
    assert.equal(second.query.seq, "0");
    await client.close();
    assert.deepEqual(of("message"), []);
  },

  async "queued and unanswered commands are limited"() {
    const { client } = await begin({ channels: ["news"] });
    const publishes = Array.from({ length: 1023 }, (_, number) => client.publish("news", number));
    await assert.rejects(client.publish("news", 1023), { code: "overloaded" });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    assert.equal(first.sent.length, 8);
    first.receives(subscribed(first.sent[0]));
    assert.equal(first.sent.length, 9);
    await client.close();
    for (const each of publishes) await assert.rejects(each, { code: "closed" });
  },

  async "a client without a connection ends its session by a WebSocket, which sends cookies"() {
    const { client } = await begin({});
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    first.closes(1006);
    await client.close();
    const last = Socket.all.at(-1);
    assert.deepEqual([last.query, last.sent], [{ resume: "a", seq: "0" }, [{ close: {} }]]);
  },

  async "commands above the rate limit are retried in order"() {
    const { client } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    const refused = client.publish("chat", 1);
    first.receives(hello("a", 0, false));
    const [subscribe, publish] = first.sent;
    first.receives(refuse(subscribe.id, "rate_limited"), refuse(publish.id, "rate_limited"));
    client.publish("chat", 2);
    assert.equal(first.sent.length, 2, "nothing more is sent for a second");
    for (const since = Date.now(); first.sent.length < 5; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual(first.sent.slice(2, 4), [subscribe, publish]);
    first.receives(refuse(publish.id, "unavailable"));
    await assert.rejects(refused, { code: "unavailable" });
    await client.close();
  },

  async "a subscription that is retried delays only the commands of its channel"() {
    const { client } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    const [subscribe] = first.sent;
    first.receives(refuse(subscribe.id, "unavailable"));
    client.publish("news", 1);
    client.publish("chat", 2);
    assert.deepEqual(first.sent.slice(1).map(({ publish }) => publish.channel), ["chat"]);
    for (const since = Date.now(); first.sent.length < 4; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual([first.sent[2], first.sent[3].publish.data], [subscribe, 1]);
    await client.close();
  },

  async "a retried subscription is reported once per channel and code"() {
    const refuseAll = (socket, code) => socket.receives(...socket.sent.map(({ id }) => refuse(id, code, `because of ${code}`)));
    const warnings = await warningsOf(async () => {
      const { client } = await begin({ channels: ["news"] });
      client.subscribe("chat");
      for (const [index, code] of ["unavailable", "unavailable", "backend_error"].entries()) {
        const socket = await next(index + 1);
        socket.receives(hello("a", 0, index > 0));
        assert.equal(socket.sent.length, 2);
        refuseAll(socket, code);
        socket.closes(1006);
      }
      await client.close();
    });
    const causes = ["news: unavailable", "chat: unavailable", "news: backend_error", "chat: backend_error"].map((cause) => `${cause}: because of ${cause.split(" ")[1]}`);
    assert.deepEqual(warnings, causes.map((cause) => `encke: cannot subscribe to ${cause}; the client retries, see the server's log`));
  },

  async "a refused channel of the options, to which nothing listens, and an unknown event are reported"() {
    const warnings = await warningsOf(async () => {
      const client = connect("http://127.0.0.1:1", { WebSocket: Socket, transports: ["websocket"], channels: ["desk"] });
      client.on("mesage", () => {});
      await turn();
      const socket = Socket.all.at(-1);
      socket.receives(hello("a", 0, false));
      socket.receives({ reply: { id: socket.sent[0].id, error: { code: "forbidden", message: "no permission" } } });
      await turn();
      await client.close();
    });
    const events = "state, hello, message, gap, subscribed, unsubscribed, fallback, goaway, reply";
    const known = `encke: unknown option mesage of on; the options are ${events}`;
    assert.deepEqual(warnings, [known, "encke: not subscribed to desk: forbidden: no permission"]);
  },

  async "repeated messages are dropped"() {
    const { client, of } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    first.receives(subscribed(first.sent[0]));
    first.receives(message(1), message(2), message(1), { gap: { seq: 2, channel: "news", epoch: "e", from: 1, to: 2 } }, message(3));
    await turn();
    assert.deepEqual(of("message").map(({ seq }) => seq), [1, 2, 3]);
    assert.deepEqual(of("gap"), []);
    await client.close();
  },

  async "requested history is delivered, even after later messages"() {
    for (const name of ["/n/a", "/n/**"]) {
      const { client, of } = await begin({ channels: ["/n/*"] });
      const [first] = Socket.all;
      first.receives(hello("a", 0, false));
      const pattern = (offset) => ({ pattern: { name: "/n/*", epoch: "p", offset }, epoch: "e" });
      first.receives(subscribed(first.sent[0]), { message: { seq: 1, ...pattern(1), channel: "/n/a", offset: 50, data: 50 } });
      client.subscribe(name, { since: { epoch: "e", offset: 10 } });
      assert.deepEqual(first.sent[1].subscribe, { channel: name, since: { epoch: "e", offset: 10 } });
      first.receives(subscribed(first.sent[1], 50), { message: { seq: 2, ...pattern(2), channel: "/n/a", offset: 11, data: 11 } });
      await turn();
      assert.deepEqual(of("message").map(({ data }) => data), [50, 11]);
      await client.close();
    }
  },

  async "a message is delivered once for overlapping subscriptions, even after one of them ends"() {
    const { client, of } = await begin({ channels: ["/n/a", "/n/*"] });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    first.receives(...first.sent.map((command) => subscribed(command)), message(1, "/n/a", 1));
    client.unsubscribe("/n/a");
    first.receives({ reply: { id: first.sent[2].id, ok: {} } });
    first.closes(1006);
    const second = await next(2);
    second.receives(hello("b", 0, false));
    assert.deepEqual(second.sent.map(({ subscribe }) => subscribe), [{ channel: "/n/*", since: { epoch: "e", offset: 0 } }]);
    const again = (offset) => ({ message: { seq: offset, pattern: { name: "/n/*", epoch: "e", offset }, epoch: "e", channel: "/n/a", offset, data: offset } });
    second.receives({ reply: { id: second.sent[0].id, ok: { channel: "/n/*", epoch: "e", offset: 2, recovered: true } } }, again(1), again(2));
    await turn();
    assert.deepEqual(of("message").map(({ data }) => data), [1, 2]);
    await client.close();
  },

  async "the positions of too many channels are discarded, so messages may be repeated"() {
    const { client, of } = await begin({ channels: ["/n/*"] });
    const by = (seq, channel) => ({ message: { seq, pattern: { name: "/n/*", epoch: "p", offset: seq }, epoch: "e", channel, offset: 1, data: channel } });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    first.receives(subscribed(first.sent[0]));
    for (let number = 1; number <= 4098; number += 1) first.receives(by(number, `/n/${number}`));
    first.closes(1006);
    const second = await next(2);
    second.receives(hello("b", 0, false), by(1, "/n/1"), by(2, "/n/4098"), by(3, "/n/new"));
    await turn();
    assert.deepEqual(of("message").slice(4098).map(({ data }) => data), ["/n/1", "/n/new"]);
    await client.close();
  },

  async "polling continues in a new session if the server starts one"() {
    const real = globalThis.fetch;
    const subscriptionsOf = {};
    globalThis.fetch = async (url, { body }) => {
      const { resume } = Object.fromEntries(new URL(url).searchParams);
      const answer = (objects) => ({ ok: true, json: async () => objects });
      if (body?.startsWith("[")) {
        const commands = JSON.parse(body);
        (subscriptionsOf[resume] ??= []).push(...commands.map(({ subscribe }) => subscribe));
        return answer(commands.map((command) => subscribed(command, 7)));
      }
      if (body) return answer([]);
      if (!resume) return answer([hello("a", 0, false)]);
      // The poll was held when the commands arrived.
      for (let turns = 0; turns < 10; turns += 1) await turn();
      return resume === "a" ? answer([hello("b", 0, false)]) : new Promise(() => {});
    };
    const { client } = await begin({ channels: ["news"], transports: ["poll"] });
    for (const since = Date.now(); !subscriptionsOf.b?.length; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual(subscriptionsOf, { a: [{ channel: "news" }], b: [{ channel: "news", since: { epoch: "e", offset: 7 } }] });
    await client.close();
    globalThis.fetch = real;
  },

  async "an exception in a listener does not affect the other listeners"() {
    const { client, of } = await begin({ channels: ["news"] });
    const failures = [];
    process.on("unhandledRejection", (error) => failures.push(error.message));
    const stop = client.on("hello", () => {
      throw new Error("of the listener");
    });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    await turn();
    assert.deepEqual(failures, ["of the listener"]);
    assert.equal(of("state").at(-1).state, "open");
    stop();
    first.closes(1006);
    (await next(2)).receives(hello("a", 0, true));
    await turn();
    assert.equal(failures.length, 1);
    await client.close();
  },

  async "data that cannot be converted to JSON is rejected"() {
    const { client } = await begin();
    const circle = {};
    circle.circle = circle;
    await assert.rejects(client.publish("news", circle), TypeError);
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    assert.deepEqual(first.sent, []);
    await client.close();
  },

  async "the client waits as long as the server demands before it reconnects"() {
    const { client, of } = await begin();
    const [first] = Socket.all;
    first.receives(hello("a", 0, false), { goaway: { reason: "moved", retry_ms: 300 } });
    const since = performance.now();
    first.closes(4008, "moved");
    await next(2);
    assert(performance.now() - since >= 299);
    await turn();
    assert.deepEqual(of("state").at(-2), { state: "waiting", reason: "moved", delay_ms: 300 });
    await client.close();
  },

  async "subscriptions made or ended by the server are reported"() {
    const { client, of } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.receives(hello("a", 0, false));
    first.receives(subscribed(first.sent[0]));
    first.receives({ subscribed: { channel: "chat", epoch: "e", offset: 7 } }, { message: { seq: 1, channel: "$user", offset: 1, data: 1 } });
    first.receives({ unsubscribed: { channel: "news", reason: "forbidden" } });
    await turn();
    assert.deepEqual(of("subscribed"), [{ channel: "chat", epoch: "e", offset: 7 }]);
    assert.equal(of("message").length, 1);
    // In a new session, the client resubscribes from its last position. If a subscription that the server
    // made starts elsewhere, the client reports a gap.
    first.closes(1006);
    const second = await next(2);
    second.receives(hello("b", 0, false), { subscribed: { channel: "chat", epoch: "e", offset: 9 } });
    await turn();
    assert.deepEqual(second.sent.map(({ subscribe }) => subscribe), [{ channel: "chat", since: { epoch: "e", offset: 7 } }]);
    assert.deepEqual(of("gap"), [{ channel: "chat", epoch: "e" }]);
    await client.close();
  },

  async "the client reconnects after every close code that permits it, and after no other"() {
    for (const [code, isFinal] of [[1000, true], [4100, true], [4103, true], [1001], [1006], [1013], [4000], [4005], [4008]]) {
      const { client, of } = await begin();
      Socket.all[0].receives(hello("a", 0, false));
      Socket.all[0].closes(code);
      await turn();
      const states = of("state").map(({ state }) => state);
      assert.deepEqual([states.includes("waiting"), states.includes("closed")], [!isFinal, Boolean(isFinal)], String(code));
      await client.close();
    }
  },

  async "a failed or malformed token is fetched again, repeated causes are reported once, and null is final"() {
    const page = "<!DOCTYPE html><h1>Bad Gateway</h1>";
    const fetched = [() => { throw new Error("offline"); }, () => Promise.reject(new Error("offline")), () => page, () => page];
    for (const value of ["", " \n", "Bad Gateway", '{"token":"a.b.c"}', undefined, {}, 7]) fetched.push(() => value);
    fetched.push(() => "a.b.c\n", () => page, async () => " an-opaque|token@example.org ", () => null);
    let calls = 0;
    const warnings = await warningsOf(async () => {
      const { client, of } = await begin({ token: () => fetched[calls++]() });
      const { random } = Math;
      Math.random = () => 0; // Reconnect immediately.
      const first = await next(1);
      assert.deepEqual([calls, first.query.token], [12, "a.b.c"]);
      first.closes(1006);
      const second = await next(2);
      assert.deepEqual([calls, second.query.token], [14, "an-opaque|token@example.org"]);
      const waits = of("state").filter(({ state }) => state === "waiting").map(({ reason }) => reason);
      assert.deepEqual(waits, [...Array(11).fill("token"), "connection_lost", "token"]);
      second.closes(4003, "token_expired");
      for (const since = Date.now(); client.state !== "closed"; await turn()) assert(Date.now() - since < 10_000);
      await turn();
      assert.deepEqual([of("state").at(-1), Socket.all.length], [{ state: "closed", reason: "no_token" }, 2]);
      Math.random = random;
    });
    const begins = ["<!DOCTYPE html><", "", "Bad Gateway", '{"token":"a.b.c"'].map((start) => `a text that begins with "${start}"`);
    const types = ["undefined", "object", "number"].map((type) => `a value of type ${type}`);
    const causes = [...begins, ...types, begins[0]].map((given) => `TypeError: expected a token, not ${given}`);
    assert.deepEqual(warnings, ["Error: offline", ...causes].map((cause) => `encke: the option token failed: ${cause}`));
  },

  async "a well-formed token that the server refuses closes the client, and so does a malformed token that is a string"() {
    for (const [token, code, reason] of [[async () => "a.b.c", 4102, "unauthorized"], ["a.b.c", 4003, "token_expired"]]) {
      const refusals = await warningsOf(async () => {
        const { client, of } = await begin({ token });
        Socket.all[0].closes(code, reason);
        await turn();
        assert.deepEqual([client.state, of("state").at(-1).reason], ["closed", reason]);
      });
      assert.deepEqual(refusals, [`encke: closed for good: ${reason}; see the server's log`]);
    }
    const { client } = await begin({ token: async () => "Unauthorized" });
    Socket.all[0].closes(4102, "unauthorized");
    await turn();
    assert.equal(client.state, "waiting", "an error in one word");
    await client.close();
    assert.throws(() => connect("http://host", { WebSocket: null, transports: ["websocket"] }), /this platform has no WebSocket/);
    const warnings = await warningsOf(async () => {
      const { of } = await begin({ token: "not a token" });
      assert.deepEqual([of("state").at(-1), Socket.all.length], [{ state: "closed", reason: "token" }, 0]);
      const { client } = await begin();
      await client.close();
    });
    assert.equal(warnings.length, 1);
    // Without a token, the cookies may still be valid.
    const { client: byCookie } = await begin();
    Socket.all[0].closes(4003, "token_expired");
    await next(2);
    await byCookie.close();
    const trimmed = await begin({ token: "a.b.c\n" });
    assert.equal(Socket.all[0].query.token, "a.b.c");
    await trimmed.client.close();
    for (const token of [undefined, null]) {
      const { client } = await begin({ token });
      assert.equal(Socket.all[0].query.token, undefined);
      await client.close();
    }
  },

  async "a client that is refused on another transport, which sends no cookies, goes back to WebSocket"() {
    const { fetch } = globalThis;
    globalThis.fetch = async () => Response.json({ error: { code: "unauthorized", message: "unauthorized" } }, { status: 401 });
    try {
      const { client, of } = await begin({ transports: ["websocket", "poll"] });
      Socket.all[0].receives(hello("a", 0, false));
      for (const count of [1, 2, 3, 4]) (await next(count)).closes(1006);
      const again = await next(5);
      assert(of("state").some(({ transport }) => transport === "poll") && client.state !== "closed");
      assert.match(again.url, /resume=/, "the session continues");
      await client.close();
    } finally {
      globalThis.fetch = fetch;
    }
  },

  async "a URL that is not the server's address is refused at once"() {
    for (const [url, wrong] of [
      ["http://host/ws", "the path /ws"],
      ["https://host/encke/events", "the path /events"],
      ["ws://host/poll", "the path /poll"],
      ["http://host/encke.js", "the path /encke.js"],
      ["localhost:8000", "the scheme localhost:"],
      ["ftp://host", "the scheme ftp:"],
      ["http://host?token=secret", "a query or fragment"],
      ["http://host/#", "a query or fragment"],
    ]) {
      const message = `encke: ${wrong} in the URL; expected the server's address, such as http://host:8000`;
      assert.throws(() => connect(url, { WebSocket: Socket }), { name: "TypeError", message }, url);
    }
    assert.throws(() => connect("/", { WebSocket: Socket }), TypeError);
    for (const [url, expected] of [
      ["http://host", "ws://host/ws"],
      ["https://host/", "wss://host/ws"],
      ["ws://host:8000", "ws://host:8000/ws"],
      [new URL("wss://host/encke"), "wss://host/encke/ws"],
      ["http://host/ws/", "ws://host/ws/ws"],
      ["http://host/views", "ws://host/views/ws"],
    ]) {
      Socket.all.length = 0;
      const client = connect(url, { WebSocket: Socket });
      await turn();
      assert.equal(Socket.all[0].url.split("?")[0], expected);
      await client.close();
    }
  },

  async "an unknown option of any method is reported with the known ones"() {
    const options = { chanels: [], Token: "a.b.c", webSocket: Socket, transport: ["poll"], helo_ms: 1, channels: ["chat", { channel: "news", lst: 5 }] };
    const warnings = await warningsOf(async () => {
      const { client } = await begin(options);
      client.publish("news", 1, { kye: "k" });
      client.publish("news", 1, { key: "k" });
      client.subscribe("more", { lst: 5 });
      client.subscribe("more", { last: 5 });
      client.history("news", { lmit: 5 });
      client.history("news", { before: 5, epoch: "e", limit: 5 });
      client.history("news", { since: 5 });
      await client.close();
    });
    const of = { connect: "token, channels, transports, persist, hello_ms, WebSocket", channels: "channel, since, last" };
    Object.assign(of, { publish: "key", subscribe: "since, last", history: "before, since, epoch, limit" });
    const expected = ["chanels", "Token", "webSocket", "transport", "helo_ms"].map((name) => [name, "connect"]);
    expected.push(["lst", "channels"], ["kye", "publish"], ["lst", "subscribe"], ["lmit", "history"]);
    assert.deepEqual(warnings, expected.map(([name, kind]) => `encke: unknown option ${name} of ${kind}; the options are ${of[kind]}`));
  },

  async "a list option that is not a list is refused at once"() {
    for (const [name, value] of [["channels", "desk-c1"], ["channels", { channel: "desk-c1" }], ["transports", "poll"]]) {
      const message = `encke: expected a list as the option ${name}, not a value of type ${typeof value}`;
      assert.throws(() => connect("http://host", { WebSocket: Socket, [name]: value }), { name: "TypeError", message });
    }
  },

  async "wrong values of other options are refused at once"() {
    for (const hello_ms of ["10s", 0, -1]) {
      const message = `encke: expected a number of milliseconds as the option hello_ms, not ${hello_ms}`;
      assert.throws(() => connect("http://host", { WebSocket: Socket, hello_ms }), { name: "TypeError", message });
    }
    const { client } = await begin();
    for (const of of ["subscribe", "history"]) {
      const message = `encke: expected an object as the options of ${of}, not 2`;
      assert.throws(() => client[of]("news", 2), { name: "TypeError", message });
    }
    await client.close();
  },

  async "an empty token is not the absence of one"() {
    const { client, of } = await begin({ token: "" });
    await turn();
    assert.deepEqual(of("state").at(-1), { state: "closed", reason: "token" });
    await client.close();
  },

  async "an unknown transport is refused at once"() {
    for (const transports of [[], ["websockets"], ["poll", "sse"]]) {
      const message = `encke: expected some of websocket, events, poll as the option transports, not [${transports}]`;
      assert.throws(() => connect("http://host", { WebSocket: Socket, transports }), { name: "TypeError", message });
    }
  },

  async "the first failed attempts to connect cause one warning"() {
    const warnings = await warningsOf(async () => {
      const { client } = await begin({ transports: ["websocket"] });
      Socket.all[0].closes(1006);
      for (const count of [2, 3]) (await next(count)).closes(1006);
      await client.close();
    });
    assert.deepEqual(warnings, ["encke: cannot connect to http://127.0.0.1:1/: status 1006; retrying"]);
  },

  async "a transport that has worked is abandoned after three failures, others after one"() {
    const options = { transports: ["websocket", "poll"] };
    const { client, of } = await begin(options);
    Socket.all[0].receives(hello("a", 0, false));
    Socket.all[0].closes(1006);
    for (const count of [2, 3, 4]) (await next(count)).closes(1006);
    await turn();
    const tried = () => of("state").filter(({ state }) => state === "connecting").map(({ transport }) => transport);
    for (const since = Date.now(); tried().length < 5; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual(tried(), ["websocket", "websocket", "websocket", "websocket", "poll"]);
    await client.close();
    const other = await begin(options);
    Socket.all[0].closes(1006);
    for (const since = Date.now(); other.of("state").length < 3; await turn()) assert(Date.now() - since < 10_000);
    assert.equal(other.of("state")[2].transport, "poll");
    await other.client.close();
  },
};

emit({ rules: Object.keys(rules).length });
for (const [rule, holds] of Object.entries(rules)) {
  await holds();
  emit({ holds: rule });
}

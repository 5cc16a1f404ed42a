// node client_alone.mjs
//
// Tests rules of the client that depend on server behaviour which is rare or hard to time, with a fake
// WebSocket. Prints the number of rules, and each rule that holds.

import assert from "node:assert/strict";
import { connect } from "../../server/client/encke.js";
import { tell } from "./test.mjs";

/** What the client has opened, the newest last. */
class Socket {
  static all = [];
  sent = [];
  constructor(url) {
    this.query = Object.fromEntries(new URL(url).searchParams);
    Socket.all.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.isClosed = true;
  }
  says(...objects) {
    for (const object of objects) this.onmessage?.({ data: JSON.stringify(object) });
  }
  ends(code, reason = "") {
    this.onclose?.({ code, reason });
  }
}

const turn = () => new Promise((resolve) => setTimeout(resolve));
const hello = (session, seq, recovered) => ({
  hello: { session, resume: session, recovered, seq, ping_interval_ms: 60_000, pong_timeout_ms: 60_000, reconnect_window_ms: 60_000 },
});
const message = (seq, channel = "news", offset = seq) => ({ message: { seq, channel, offset, data: seq } });
const followed = ({ id, subscribe: { channel } }, offset = 0) => ({ reply: { id, ok: { channel, epoch: "e", offset } } });

async function begin(options) {
  Socket.all.length = 0;
  const client = connect("http://127.0.0.1:1", { WebSocket: Socket, transports: ["websocket"], ...options });
  const heard = [];
  for (const type of ["message", "gap", "state", "unsubscribed", "subscribed", "goaway", "fallback"]) {
    client.on(type, (body) => heard.push([type, body]));
  }
  await turn();
  return { client, heard, of: (wanted) => heard.filter(([type]) => type === wanted).map(([, body]) => body) };
}

/** The next socket, however long the client takes to open it. */
async function next(count) {
  for (const since = Date.now(); Socket.all.length < count; await turn()) assert(Date.now() - since < 15_000, "it comes back");
  return Socket.all.at(-1);
}

const rules = {
  async "a message before the reply to its subscription waits for it, and is not acknowledged before"() {
    const { client, of } = await begin({ channels: ["news", "chat"] });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    first.says(followed(first.sent[1]), message(1, "chat"));
    first.ends(1006);
    // The reply was lost, but the server had executed the command and sends messages.
    const second = await next(2);
    assert.deepEqual(second.query, { heartbeat: "message", resume: "a", seq: "1" });
    second.says(hello("a", 1, true), message(2), message(3, "chat"), { ping: { seq: 3 } });
    await turn();
    assert.deepEqual(second.sent.map((object) => Object.keys(object).pop()), ["subscribe", "pong"]);
    assert.deepEqual(second.sent[1], { pong: { seq: 1 } });
    assert.deepEqual(of("message").map(({ seq }) => seq), [1]);
    second.says(followed(second.sent[0], 9), { ping: { seq: 3 } });
    await turn();
    assert.deepEqual(of("message").map(({ seq }) => seq), [1, 2, 3]);
    assert.deepEqual(second.sent[2], { pong: { seq: 3 } });
    // In a new session, the client subscribes from the last offset it received.
    second.ends(1006);
    const third = await next(3);
    third.says(hello("b", 0, false));
    const since = third.sent.map(({ subscribe }) => subscribe.since);
    assert.deepEqual(since, [{ epoch: "e", offset: 2 }, { epoch: "e", offset: 3 }]);
    await client.close();
  },

  async "messages that wait have a limit, and come again"() {
    const { client, of } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    for (let seq = 1; seq <= 1024; seq += 1) first.says(message(seq));
    assert(!first.isClosed);
    first.says(message(1025));
    assert(first.isClosed);
    const second = await next(2);
    assert.equal(second.query.seq, "0");
    await client.close();
    assert.deepEqual(of("message"), []);
  },

  async "commands have a limit, of those that wait and of those under way"() {
    const { client } = await begin({ channels: ["news"] });
    const asked = Array.from({ length: 1023 }, (_, number) => client.publish("news", number));
    await assert.rejects(client.publish("news", 1023), { code: "overloaded" });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    assert.equal(first.sent.length, 8);
    first.says(followed(first.sent[0]));
    assert.equal(first.sent.length, 9);
    await client.close();
    for (const each of asked) await assert.rejects(each, { code: "closed" });
  },

  async "what the server refuses for the moment is sent again, in its order"() {
    const { client } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    const asked = client.publish("chat", 1);
    first.says(hello("a", 0, false));
    const [subscribe, publish] = first.sent;
    const refuse = (id, code) => ({ reply: { id, error: { code, message: "" } } });
    first.says(refuse(subscribe.id, "unavailable"), refuse(publish.id, "rate_limited"));
    client.publish("chat", 2);
    assert.equal(first.sent.length, 2, "nothing more is sent for a second");
    for (const since = Date.now(); first.sent.length < 5; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual(first.sent.slice(2, 4), [subscribe, publish]);
    first.says(refuse(publish.id, "unavailable"));
    await assert.rejects(asked, { code: "unavailable" });
    await client.close();
  },

  async "what has been told is not told again"() {
    const { client, of } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    first.says(followed(first.sent[0]));
    first.says(message(1), message(2), message(1), { gap: { seq: 2, channel: "news", epoch: "e", from: 1, to: 2 } }, message(3));
    await turn();
    assert.deepEqual(of("message").map(({ seq }) => seq), [1, 2, 3]);
    assert.deepEqual(of("gap"), []);
    await client.close();
  },

  async "history that is asked for comes, whatever has come before"() {
    for (const name of ["/n/a", "/n/**"]) {
      const { client, of } = await begin({ channels: ["/n/*"] });
      const [first] = Socket.all;
      first.says(hello("a", 0, false));
      const pattern = (offset) => ({ pattern: { name: "/n/*", epoch: "p", offset }, epoch: "e" });
      first.says(followed(first.sent[0]), { message: { seq: 1, ...pattern(1), channel: "/n/a", offset: 50, data: 50 } });
      client.subscribe(name, { since: { epoch: "e", offset: 10 } });
      assert.deepEqual(first.sent[1].subscribe, { channel: name, since: { epoch: "e", offset: 10 } });
      first.says(followed(first.sent[1], 50), { message: { seq: 2, ...pattern(2), channel: "/n/a", offset: 11, data: 11 } });
      await turn();
      assert.deepEqual(of("message").map(({ data }) => data), [50, 11]);
      await client.close();
    }
  },

  async "what one subscription has brought, another does not bring again, also when the first is gone"() {
    const { client, of } = await begin({ channels: ["/n/a", "/n/*"] });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    first.says(...first.sent.map((command) => followed(command)), message(1, "/n/a", 1));
    client.unsubscribe("/n/a");
    first.says({ reply: { id: first.sent[2].id, ok: {} } });
    first.ends(1006);
    const second = await next(2);
    second.says(hello("b", 0, false));
    assert.deepEqual(second.sent.map(({ subscribe }) => subscribe), [{ channel: "/n/*", since: { epoch: "e", offset: 0 } }]);
    const again = (offset) => ({ message: { seq: offset, pattern: { name: "/n/*", epoch: "e", offset }, epoch: "e", channel: "/n/a", offset, data: offset } });
    second.says({ reply: { id: second.sent[0].id, ok: { channel: "/n/*", epoch: "e", offset: 2, recovered: true } } }, again(1), again(2));
    await turn();
    assert.deepEqual(of("message").map(({ data }) => data), [1, 2]);
    await client.close();
  },

  async "of too many channels, what is known of them is forgotten, and some may come again"() {
    const { client, of } = await begin({ channels: ["/n/*"] });
    const by = (seq, channel) => ({ message: { seq, pattern: { name: "/n/*", epoch: "p", offset: seq }, epoch: "e", channel, offset: 1, data: channel } });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    first.says(followed(first.sent[0]));
    for (let number = 1; number <= 4098; number += 1) first.says(by(number, `/n/${number}`));
    first.ends(1006);
    const second = await next(2);
    second.says(hello("b", 0, false), by(1, "/n/1"), by(2, "/n/4098"), by(3, "/n/new"));
    await turn();
    assert.deepEqual(of("message").slice(4098).map(({ data }) => data), ["/n/1", "/n/new"]);
    await client.close();
  },

  async "a poll that is answered by another session goes on in that"() {
    const real = globalThis.fetch;
    const followedBy = {};
    globalThis.fetch = async (url, { body }) => {
      const { resume } = Object.fromEntries(new URL(url).searchParams);
      const answer = (objects) => ({ ok: true, json: async () => objects });
      if (body?.startsWith("[")) {
        const commands = JSON.parse(body);
        (followedBy[resume] ??= []).push(...commands.map(({ subscribe }) => subscribe));
        return answer(commands.map((command) => followed(command, 7)));
      }
      if (body) return answer([]);
      if (!resume) return answer([hello("a", 0, false)]);
      // The poll was held when the commands arrived.
      for (let turns = 0; turns < 10; turns += 1) await turn();
      return resume === "a" ? answer([hello("b", 0, false)]) : new Promise(() => {});
    };
    const { client } = await begin({ channels: ["news"], transports: ["poll"] });
    for (const since = Date.now(); !followedBy.b?.length; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual(followedBy, { a: [{ channel: "news" }], b: [{ channel: "news", since: { epoch: "e", offset: 7 } }] });
    await client.close();
    globalThis.fetch = real;
  },

  async "a listener that fails keeps nothing from the others"() {
    const { client, of } = await begin({ channels: ["news"] });
    const failures = [];
    process.on("unhandledRejection", (error) => failures.push(error.message));
    const stop = client.on("hello", () => {
      throw new Error("of the listener");
    });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    await turn();
    assert.deepEqual(failures, ["of the listener"]);
    assert.equal(of("state").at(-1).state, "open");
    stop();
    first.ends(1006);
    (await next(2)).says(hello("a", 0, true));
    await turn();
    assert.equal(failures.length, 1);
    await client.close();
  },

  async "data that is no JSON is refused, and harms nothing"() {
    const { client } = await begin();
    const circle = {};
    circle.circle = circle;
    await assert.rejects(client.publish("news", circle), TypeError);
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    assert.deepEqual(first.sent, []);
    await client.close();
  },

  async "it stays away for as long as the server says"() {
    const { client, of } = await begin();
    const [first] = Socket.all;
    first.says(hello("a", 0, false), { goaway: { reason: "moved", retry_ms: 300 } });
    first.ends(4008, "moved");
    const since = performance.now();
    await next(2);
    assert(performance.now() - since >= 299);
    await turn();
    assert.deepEqual(of("state").at(-2), { state: "waiting", reason: "moved", delay_ms: 300 });
    await client.close();
  },

  async "what the server says of its own accord is told"() {
    const { client, of } = await begin({ channels: ["news"] });
    const [first] = Socket.all;
    first.says(hello("a", 0, false));
    first.says(followed(first.sent[0]));
    first.says({ subscribed: { channel: "chat", epoch: "e", offset: 7 } }, { message: { seq: 1, channel: "$user", offset: 1, data: 1 } });
    first.says({ unsubscribed: { channel: "news", reason: "forbidden" } });
    await turn();
    assert.deepEqual(of("subscribed"), [{ channel: "chat", epoch: "e", offset: 7 }]);
    assert.equal(of("message").length, 1);
    // In a new session, the client resubscribes from its last position. If a subscription that the server
    // made starts elsewhere, the client reports a gap.
    first.ends(1006);
    const second = await next(2);
    second.says(hello("b", 0, false), { subscribed: { channel: "chat", epoch: "e", offset: 9 } });
    await turn();
    assert.deepEqual(second.sent.map(({ subscribe }) => subscribe), [{ channel: "chat", since: { epoch: "e", offset: 7 } }]);
    assert.deepEqual(of("gap"), [{ channel: "chat", epoch: "e" }]);
    await client.close();
  },

  async "it comes back after every code that invites it, and after no other"() {
    for (const [code, isFinal] of [[1000, true], [4100, true], [4103, true], [1001], [1006], [1013], [4000], [4005], [4008]]) {
      const { client, of } = await begin();
      Socket.all[0].says(hello("a", 0, false));
      Socket.all[0].ends(code);
      await turn();
      const states = of("state").map(({ state }) => state);
      assert.deepEqual([states.includes("waiting"), states.includes("closed")], [!isFinal, Boolean(isFinal)], String(code));
      await client.close();
    }
  },

  async "a transport that got through is given up after three failures, another after one"() {
    const options = { transports: ["websocket", "poll"] };
    const { client, of } = await begin(options);
    Socket.all[0].says(hello("a", 0, false));
    Socket.all[0].ends(1006);
    for (const count of [2, 3, 4]) (await next(count)).ends(1006);
    await turn();
    const tried = () => of("state").filter(({ state }) => state === "connecting").map(({ transport }) => transport);
    for (const since = Date.now(); tried().length < 5; await turn()) assert(Date.now() - since < 10_000);
    assert.deepEqual(tried(), ["websocket", "websocket", "websocket", "websocket", "poll"]);
    await client.close();
    const other = await begin(options);
    Socket.all[0].ends(1006);
    for (const since = Date.now(); other.of("state").length < 3; await turn()) assert(Date.now() - since < 10_000);
    assert.equal(other.of("state")[2].transport, "poll");
    await other.client.close();
  },
};

tell({ rules: Object.keys(rules).length });
for (const [rule, holds] of Object.entries(rules)) {
  await holds();
  tell({ holds: rule });
}

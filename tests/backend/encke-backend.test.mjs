// node --test encke-backend.test.mjs
//
// Tests of tests/example/encke-backend.mjs, with the same cases as encke_backend_test.py.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { test } from "node:test";
import { publish, PublishError, signToken, VerificationError, verifyRequest } from "../example/encke-backend.mjs";

const CASES = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf8"));

/** Runs a test for each case of a list. */
const forEach = (name, cases, check) => test(name, (t) => Promise.all(cases.map((each) => t.test(each.name, () => check(each)))));

forEach("requests are accepted or refused", CASES.verify.changes, (change) => {
  const { secret, body, error, now, tolerance, ...rest } = { ...CASES.verify, ...change };
  const present = Object.entries({ ...CASES.verify.headers, ...rest.headers }).filter(([, value]) => value !== null);
  for (const headers of [Object.fromEntries(present), new Headers(present)]) {
    for (const received of [body, Buffer.from(body)]) {
      const verify = () => verifyRequest(secret, headers, received, { now, tolerance });
      if (error === null) assert.deepEqual(verify(), CASES.verify.accepted);
      else assert.throws(verify, (thrown) => thrown instanceof VerificationError && thrown.message.startsWith(error));
    }
  }
});

test("bad secrets are not quoted", () => {
  for (const secret of CASES.verify.bad_secrets) {
    assert.throws(() => verifyRequest(secret, {}, ""), { message: "secret must be `whsec_` followed by base64" });
  }
});

test("a parsed body is refused", () => {
  assert.throws(() => verifyRequest(CASES.verify.secret, {}, { test: 1 }), { name: "TypeError", message: /not parsed/ });
});

test("tokens are the known ones", () => {
  const { secret, now, tokens } = CASES.sign;
  for (const { sub, options, token, claims } of tokens) {
    assert.equal(signToken(secret, sub, { ...options, now }), token);
    const [header, payload, signature] = token.split(".");
    const parse = (part) => JSON.parse(Buffer.from(part, "base64url"));
    assert.deepEqual([parse(header), parse(payload)], [{ alg: "HS256", typ: "JWT", ...(options.kid && { kid: options.kid }) }, claims]);
    assert.equal(createHmac("sha256", secret).update(`${header}.${payload}`).digest("base64url"), signature);
  }
});

test("tokens that Encke would refuse are not signed", () => {
  for (const { error, ...change } of CASES.sign.refused) {
    const { secret, sub, ...options } = { secret: CASES.sign.secret, sub: "alice", ttl: 60, ...change };
    assert.throws(() => signToken(secret, sub, options), { message: error });
  }
});

/** Runs a server that gives these answers, one for each request. `requests` lists what it has received. */
async function serve(answers, use) {
  const requests = [];
  const remaining = [...answers];
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join("");
    const { "content-type": type, authorization } = request.headers;
    requests.push({ path: request.url, type, authorization, body });
    const answer = remaining.length > 0 ? remaining.shift() : [500];
    if (answer === null) return request.socket.destroy();
    const [status, after = "", text = ""] = answer;
    response.writeHead(status, { "Retry-After": after, Location: "/elsewhere" });
    response.end(text || JSON.stringify(status === 200 ? CASES.publish.ok : {}));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    await use(`http://127.0.0.1:${server.address().port}/behind/a/proxy/`, requests);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

forEach("publishes are retried with the same key", CASES.publish.cases, async ({ answers, attempts, pauses, error }) => {
  for (const key of ["order-17", undefined]) {
    await serve(answers, async (url, requests) => {
      const paused = [];
      const options = { key, url, attempts, apiKey: "k".repeat(16), sleep: async (pause) => paused.push(pause), jitter: () => 0.5 };
      const published = publish("news", { n: 1 }, options);
      if (error) {
        const { text: message, ...fields } = error;
        await assert.rejects(published, { name: "PublishError", message, ...fields });
      } else {
        assert.deepEqual(await published, CASES.publish.ok);
      }
      assert.deepEqual(paused, pauses);
      const { body, ...head } = requests[0];
      assert.deepEqual(requests, answers.map(() => requests[0]));
      assert.deepEqual(head, { path: "/behind/a/proxy/api/publish", type: "application/json", authorization: `Bearer ${"k".repeat(16)}` });
      const sent = JSON.parse(body);
      assert.deepEqual(sent, { channel: "news", data: { n: 1 }, key: key ?? sent.key });
      assert(sent.key.length > 0 && sent.key.length <= 64);
    });
  }
});

test("random keys differ", () =>
  serve([[200], [200]], async (url, requests) => {
    for (const data of [1, 2]) await publish("news", data, { url });
    assert.notEqual(...requests.map(({ body }) => JSON.parse(body).key));
  }));

test("no response", async (t) => {
  const sockets = [];
  const silent = createTcpServer((socket) => sockets.push(socket.on("error", () => {})));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  await once(silent.listen(0, "127.0.0.1"), "listening");
  // Only the superuser could listen on port 2.
  for (const [port, timeout, reason] of [[silent.address().port, 0.02, /timeout/], [2, 60, /ECONNREFUSED/]]) {
    const pauses = [];
    const options = { key: "k", url: `http://127.0.0.1:${port}`, timeout, attempts: 2, sleep: async (pause) => pauses.push(pause) };
    const error = await publish("news", 1, { ...options, jitter: () => 1 }).catch((thrown) => thrown);
    assert(error instanceof PublishError);
    assert.deepEqual([error.status, error.code, error.key, pauses], [null, null, "k", [0.5]]);
    assert.match(error.message, /^publish failed: no response: /);
    assert.match(error.reason, reason);
    assert(error.cause instanceof Error);
  }
});

test("bad arguments are refused at once", async () => {
  await assert.rejects(publish("news", 1, { url: "localhost:8001" }), { message: "url must begin with http:// or https://" });
});

/**
 * Functions for a backend of Encke: verify requests from Encke, sign tokens for clients, publish messages.
 *
 * Copy this file into your backend. It needs Node.js 18 or newer, and no packages.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { setTimeout } from "node:timers/promises";

const RETRIED_STATUSES = [429, 502, 503, 504];
const FIRST_PAUSE = 0.5; // Seconds before the second attempt. Each later pause is twice as long.
const MAX_PAUSE = 30;

/** The request is not from Encke, or is too old. Answer it with status 401. */
export class VerificationError extends Error {
  name = "VerificationError";
}

/**
 * The publish failed. Unless the server refused it, it may still take effect: to try again later without a duplicate, use its `key`.
 *
 * `status` is the HTTP status, `code` is Encke's error code, and `reason` is its message. `status` is null if there was no response, and
 * `code` is null if the response has none.
 */
export class PublishError extends Error {
  name = "PublishError";

  /**
   * @param {number | null} status
   * @param {string | null} code
   * @param {string} reason
   * @param {string} key
   * @param {unknown} [cause]
   */
  constructor(status, code, reason, key, cause) {
    super(`publish failed: ${status ?? "no response"}${code ? ` ${code}` : ""}: ${reason}`, { cause });
    this.status = status;
    this.code = code;
    this.reason = reason;
    this.key = key;
  }
}

/**
 * Verifies the signature of a webhook or hook request (Standard Webhooks), and returns its parsed body.
 *
 * `secret` is `webhook.secret` or `backend.secret` of Encke's configuration, and `body` is the body as received. The time of the
 * request may differ from the clock by `tolerance` seconds. Within this time, somebody who has read the request can send it again, so
 * store the `id` of each event. Throws VerificationError.
 *
 * @param {string} secret
 * @param {Headers | Record<string, string | string[] | undefined>} headers
 * @param {string | Uint8Array} body
 * @param {{ tolerance?: number, now?: number }} [options] `now`: seconds since 1970
 * @returns {any}
 */
export function verifyRequest(secret, headers, body, { tolerance = 300, now = Date.now() / 1000 } = {}) {
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw new TypeError("body must be the request's body as received, not parsed");
  }
  const key = webhookKey(secret);
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const fields = Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]));
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => header(fields, name));
  if (!/^[0-9]{1,15}$/.test(timestamp)) throw new VerificationError("webhook-timestamp is not a number of seconds since 1970");
  const age = now - Number(timestamp);
  if (Math.abs(age) > tolerance) {
    const difference = `its time differs from this machine's by ${Math.abs(age).toFixed()} s`;
    throw new VerificationError(`the request is too ${age > 0 ? "old" : "new"}: ${difference}`);
  }
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${mac}`);
  // The header has several signatures, separated by spaces, while the sender replaces its secret.
  const given = signatures.split(" ").map((signature) => Buffer.from(signature));
  if (!given.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))) {
    throw new VerificationError("no signature matches: the secret differs from Encke's, or the body was changed");
  }
  return JSON.parse(Buffer.from(body).toString());
}

/**
 * Returns a token (JWT, HS256) with which the user `sub` can connect for the next `ttl` seconds.
 *
 * `secret` is `auth.secret` of Encke's configuration, or the secret of the key `kid` in `auth.keys`. `channels` maps channels to
 * permissions: `{ "chat.*": ["subscribe", "publish", "presence"] }`. A new session joins the channels in `join`, for which the token must
 * have the permission `subscribe`. `audience` is `auth.audience`.
 *
 * @param {string} secret
 * @param {string} sub
 * @param {{ ttl: number, channels?: Record<string, string[]>, join?: string[], audience?: string, kid?: string, now?: number }} options
 * @returns {string}
 */
export function signToken(secret, sub, { ttl, channels = {}, join = [], audience, kid, now = Date.now() / 1000 }) {
  if (Buffer.byteLength(secret) < 32) throw new RangeError("secret must be at least 32 bytes long");
  const length = Buffer.byteLength(sub);
  if (length < 1 || length > 255) throw new RangeError("sub must be 1 to 255 bytes long");
  if (!Number.isFinite(ttl) || ttl <= 0) throw new RangeError("ttl must be a positive number of seconds");
  if (!Array.isArray(join)) throw new TypeError("join must be a list of channels");
  // The fraction of `iat` distinguishes a new token from one that was revoked in the same second.
  const claims = { sub, aud: audience, iat: now, exp: Math.floor(now + ttl), channels, join };
  const parts = [{ alg: "HS256", typ: "JWT", kid }, claims];
  const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/**
 * Publishes a message through the admin listener at `url`, and returns its position.
 *
 * Failed connections, timeouts and the statuses 429, 502, 503 and 504 are retried, up to `attempts` attempts in total, unless
 * `Retry-After` asks for a pause of more than MAX_PAUSE. `key` (up to 64 bytes) identifies the message: the channel publishes it once, as
 * long as it remembers the key (`channel.history_age`). The default is a random key for each call. `timeout` is how long to wait for the
 * server, in seconds. Throws PublishError.
 *
 * @param {string} channel
 * @param {unknown} data
 * @param {{ key?: string, url?: string, apiKey?: string, timeout?: number, attempts?: number,
 *   sleep?: (seconds: number) => Promise<unknown>, jitter?: () => number }} [options]
 * @returns {Promise<{ offset: number, epoch: string }>}
 */
export async function publish(channel, data, options = {}) {
  const { key = randomUUID(), url = "http://127.0.0.1:8001", apiKey, timeout = 10, attempts = 6 } = options;
  const { sleep = (seconds) => setTimeout(seconds * 1000), jitter = Math.random } = options;
  if (!/^https?:\/\//i.test(url)) throw new TypeError("url must begin with http:// or https://");
  const target = new URL(`${url.replace(/\/+$/, "")}/api/publish`);
  const request = {
    method: "POST",
    headers: new Headers({ "Content-Type": "application/json", ...(apiKey && { Authorization: `Bearer ${apiKey}` }) }),
    body: JSON.stringify({ channel, data, key }),
    redirect: "manual",
  };
  for (let attempt = 1, longest = FIRST_PAUSE; ; attempt++, longest = Math.min(MAX_PAUSE, longest * 2)) {
    const { status, after, answer, failure } = await post(target, request, timeout, key);
    if (status === 200 && "offset" in answer) return answer;
    if (status !== null && !RETRIED_STATUSES.includes(status)) throw failure;
    // A date instead of a number of seconds is ignored.
    const retryAfter = /^[0-9]{1,9}$/.test(after) ? Number(after) : 0;
    if (attempt >= attempts || retryAfter > MAX_PAUSE) throw failure;
    await sleep(retryAfter + (longest * (1 + jitter())) / 2);
  }
}

function webhookKey(secret) {
  const encoded = /^whsec_([A-Za-z0-9+/]+)={0,2}$/.exec(secret)?.[1];
  if (!encoded || encoded.length % 4 === 1) throw new RangeError("secret must be `whsec_` followed by base64");
  return Buffer.from(encoded, "base64");
}

function header(fields, name) {
  const value = fields[name];
  if (!value || !/^[\x00-\x7f]*$/.test(value)) throw new VerificationError(`${name} is ${value ? "not ASCII" : "missing"}`);
  return String(value);
}

async function post(target, request, timeout, key) {
  try {
    const response = await fetch(target, { ...request, signal: AbortSignal.timeout(timeout * 1000) });
    const text = await response.text();
    const { status } = response;
    const answer = objectOf(text);
    // A response without an error object is from another server, such as a proxy.
    const { code = null, message = text.slice(0, 200) || "empty response" } = answer.error ?? {};
    return { status, after: response.headers.get("retry-after") ?? "", answer, failure: new PublishError(status, code, message, key) };
  } catch (/** @type {any} */ error) {
    const reason = error.cause?.message || error.cause?.code || error.message;
    return { status: null, after: "", answer: {}, failure: new PublishError(null, null, reason, key, error) };
  }
}

/** Parses a JSON object. Any other text counts as an empty one. */
function objectOf(text) {
  try {
    const parsed = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}

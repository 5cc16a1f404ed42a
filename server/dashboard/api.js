// The admin API. The key is nowhere but here: not in the page, a URL, or a store.

// Browsers have but six connections for all pages of a server: whoever gets none must not wait for good.
const LONGEST_MS = 20_000;

let key = null;
let unauthorized = () => {};

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export const setKey = (text) => (key = text);

export const hasKey = () => key !== null;

// Told when the key is no longer one.
export const onUnauthorized = (listener) => (unauthorized = listener);

export async function open(method, path, { body, signal } = {}) {
  const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...(body && { "Content-Type": "application/json" }) };
  const response = await fetch(path, { method, headers, body, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, error?.code ?? "unknown", error?.message ?? `the server answered ${response.status}`);
}

// `parse` makes of an answer's text what is wanted.
export async function ask(method, path, { body, signal, parse = JSON.parse } = {}) {
  const ends = [signal, AbortSignal.timeout(LONGEST_MS)].filter(Boolean);
  try {
    const response = await open(method, path, { body, signal: AbortSignal.any(ends) });
    return response.status === 204 ? null : parse(await response.text());
  } catch (error) {
    if (error.status === 401) unauthorized();
    throw error;
  }
}

export const get = (path, signal, parse) => ask("GET", path, { signal, parse });

// Calls `look` now and again, `ms` after it was done, while the page can be seen. Failures are told to `failed`, each success to it with null.
export function poll(ms, signal, look, failed) {
  let timer, running;
  const again = () => {
    clearTimeout(timer);
    if (!running && !document.hidden && !signal.aborted) run();
  };
  const run = async () => {
    running = true;
    try {
      await look();
      failed(null);
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
    running = false;
    if (!signal.aborted) timer = setTimeout(again, ms);
  };
  document.addEventListener("visibilitychange", again, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  again();
  return again;
}

// What went wrong, in words: `fetch` itself says little.
export const reasonOf = (error) => (error instanceof ApiError ? error.message : "the server does not answer");

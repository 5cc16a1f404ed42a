// Client of the admin API. The key is kept only in this module: not in the page, a URL, or storage.

// Browsers open only six connections to a server for all of its pages. A request that gets no connection must
// time out.
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

// Sets the listener for rejected keys.
export const onUnauthorized = (listener) => (unauthorized = listener);

export async function open(method, path, { body, signal } = {}) {
  const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...(body && { "Content-Type": "application/json" }) };
  const response = await fetch(path, { method, headers, body, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, error?.code ?? "unknown", error?.message ?? `the server answered ${response.status}`);
}

// Sends a request. `parse` converts the text of the response.
export async function request(method, path, { body, signal, parse = JSON.parse } = {}) {
  const ends = [signal, AbortSignal.timeout(LONGEST_MS)].filter(Boolean);
  try {
    const response = await open(method, path, { body, signal: AbortSignal.any(ends) });
    return response.status === 204 ? null : parse(await response.text());
  } catch (error) {
    if (error.status === 401) unauthorized();
    throw error;
  }
}

export const get = (path, signal, parse) => request("GET", path, { signal, parse });

// Calls `look` repeatedly while the page is visible, each time `ms` after the previous call has finished.
// Calls `failed` with each error, and with null after each success.
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

// Describes an error for the user, because the error messages of `fetch` itself are not helpful.
export const reasonOf = (error) => (error instanceof ApiError ? error.message : "the server does not answer");

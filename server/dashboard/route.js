// Routes in the URL fragment: `#/sessions/s_1`, `#/sessions?phase=attached`.

export function route(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/");
  return { name, item: decoded(rest.join("/")) || null, query: new URLSearchParams(query) };
}

export const sessionLink = (id) => `#/sessions/${encodeURIComponent(id)}`;

// A typed name may contain half of a surrogate pair, which a URL cannot.
export const channelLink = (name) => `#/channels/${encodeURIComponent(name.toWellFormed())}`;

// The fragment may have been typed by hand.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

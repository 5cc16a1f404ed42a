// Routes in the URL fragment: `#/sessions/s_1`, `#/sessions?phase=attached`.

export function route(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/");
  return { name, item: decoded(rest.join("/")) || null, query: new URLSearchParams(query) };
}

export const sessionLink = (id) => `#/sessions/${encodeURIComponent(id)}`;

// Replaces lone surrogates, which a typed name may contain but a URL may not.
export const channelLink = (name) => `#/channels/${encodeURIComponent(name.toWellFormed())}`;

// Decodes text. The text may be invalid, because the fragment may have been typed by hand.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

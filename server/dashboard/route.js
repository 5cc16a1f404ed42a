// What the part of the address after # says: `#/sessions/s_1`, `#/sessions?phase=attached`.

export function route(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/");
  return { name, item: decoded(rest.join("/")) || null, query: new URLSearchParams(query) };
}

export const sessionLink = (id) => `#/sessions/${encodeURIComponent(id)}`;

// A typed name may have half of a surrogate pair, which no address can have.
export const channelLink = (name) => `#/channels/${encodeURIComponent(name.toWellFormed())}`;

// Someone may have typed it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// What the part of the address after # says: `#/sessions/s_1`, `#/sessions?phase=attached`.

export function route(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/");
  return { name, item: rest.length > 0 ? decoded(rest.join("/")) : null, query: new URLSearchParams(query) };
}

export const sessionLink = (id) => `#/sessions/${encodeURIComponent(id)}`;

export const channelLink = (name) => `#/channels/${encodeURIComponent(name)}`;

// Someone may have typed it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

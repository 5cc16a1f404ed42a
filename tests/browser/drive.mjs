// Connects a client that prints all its events. Returns a function that calls the client's methods. `drive`
// runs in node and in pages, where its source text is evaluated.

export function drive(connect, base, { tokens, ...options }, emit) {
  const now = () => ({ at_ms: performance.now() });
  const never = new Promise(() => {});
  const token = tokens && (async () => (tokens.length > 1 ? tokens.shift() : tokens[0]) ?? never);
  const client = connect(base, { ...(token && { token }), ...options });
  for (const type of ["hello", "message", "gap", "reply", "unsubscribed", "subscribed", "goaway", "state", "fallback"]) {
    client.on(type, (body) => emit({ [type]: body, ...now() }));
  }
  return ([method, ...rest]) => {
    const asked = { asked: [method, ...rest] };
    client[method](...rest).then(
      (answer) => emit({ answer: answer ?? null, ...asked, ...now() }),
      ({ code, message }) => emit({ failed: { code, message }, ...asked, ...now() }),
    );
  };
}

// Executes commands, and confirms each once it has started.
export async function obey(commands, methods, emit) {
  emit({ ready: true });
  for await (const { tab = 0, ...command } of commands) {
    for (const [kind, body] of Object.entries(command)) {
      await methods[kind](tab, body);
      emit({ done: kind });
    }
  }
}

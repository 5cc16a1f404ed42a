// Message data exactly as published. JavaScript's numbers have 53 bits of precision; JSON has no limit.

const keep = (_, value, context) => (typeof value === "number" && context ? JSON.rawJSON(context.source) : value);

// Parses a response with `messages` whose `data` is only passed to `JSON.stringify`.
export function messagesAsWritten(text) {
  const answer = JSON.parse(text);
  // `JSON.rawJSON` is not available in older browsers.
  const written = JSON.rawJSON ? JSON.parse(text, keep) : answer;
  answer.messages.forEach((message, index) => (message.data = written.messages[index].data));
  return answer;
}

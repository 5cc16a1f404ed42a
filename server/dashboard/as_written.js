// What others have published, as they wrote it: numbers of JavaScript have 53 bits, those of JSON as many as one likes.

const keep = (_, value, context) => (typeof value === "number" && context ? JSON.rawJSON(context.source) : value);

// An answer with `messages`, whose `data` is JSON for `JSON.stringify` alone.
export function messagesAsWritten(text) {
  const answer = JSON.parse(text);
  // Older browsers cannot.
  const written = JSON.rawJSON ? JSON.parse(text, keep) : answer;
  answer.messages.forEach((message, index) => (message.data = written.messages[index].data));
  return answer;
}

// Form to send any command in the playground, typed or based on a template.

import { el, isIdle, setIdle, setText } from "./dom.js";

const TEMPLATES = [
  { title: "subscribe", command: { id: 1, subscribe: { channel: "news" } } },
  { title: "subscribe, with the last 20 messages", command: { id: 2, subscribe: { channel: "news", last: 20 } } },
  { title: "publish", command: { id: 3, publish: { channel: "news", data: { any: "json" } } } },
  { title: "presence", command: { id: 4, presence: { channel: "news" } } },
  { title: "history", command: { id: 5, history: { channel: "news", limit: 20 } } },
  { title: "unsubscribe", command: { id: 6, unsubscribe: { channel: "news" } } },
  { title: "close: end the session", command: { close: {} } },
];

const textOf = (index) => JSON.stringify(TEMPLATES[index].command);

export function commandForm(send) {
  const templates = el(
    "select",
    { id: "template" },
    TEMPLATES.map(({ title }, index) => el("option", { value: index }, title)),
  );
  const problem = el("p", { id: "command-problem", class: "problem", hidden: true });
  const field = el("textarea", { id: "command", rows: 3, spellcheck: "false", autocomplete: "off", "aria-describedby": "command-problem" });
  const button = el("button", { type: "submit", class: "main" }, "Send");
  field.value = textOf(0);
  templates.addEventListener("change", () => (field.value = textOf(templates.value)));

  // Send invalid JSON as well: the playground is for trying things out.
  function submit(event) {
    event.preventDefault();
    if (isIdle(button)) return;
    const text = field.value.trim();
    const fault = faultOf(text);
    problem.hidden = fault === null;
    setText(problem, fault ?? "");
    if (text !== "") send(text);
  }

  const element = el(
    "form",
    { class: "stack", onsubmit: submit },
    el("label", { for: "template" }, "Template"),
    templates,
    el("label", { for: "command" }, "Command"),
    field,
    problem,
    button,
  );
  return { element, enable: (isOpen) => setIdle(button, !isOpen) };
}

function faultOf(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `Sent, although it is not JSON: ${error.message}`;
  }
}

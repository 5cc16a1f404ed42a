// A form that publishes JSON on a channel, as it is written. What is no JSON is said at the field.

import { ask, reasonOf } from "./api.js";
import { el, setText } from "./dom.js";

export function publishForm(channel, live, published) {
  const problem = el("p", { id: "data-problem", class: "problem", hidden: true });
  const field = el("textarea", { id: "data", rows: 4, spellcheck: "false", autocomplete: "off", "aria-describedby": "data-problem" });
  const says = el("p", { class: "note", role: "status" });
  const mayPublish = live.may("publish");
  field.value = '{"any": "json"}';

  function refuse(text) {
    problem.hidden = text === null;
    setText(problem, text ?? "");
    if (text === null) field.removeAttribute("aria-invalid");
    else field.setAttribute("aria-invalid", "true");
  }

  async function submit(event) {
    event.preventDefault();
    const data = field.value;
    try {
      JSON.parse(data);
    } catch (error) {
      refuse(`This is no JSON: ${error.message}`);
      return field.focus();
    }
    refuse(null);
    try {
      const { offset } = await ask("POST", "/api/publish", { body: `{"channel":${JSON.stringify(channel)},"data":${data}}` });
      setText(says, `Published: it has offset ${offset}.`);
      published();
    } catch (error) {
      setText(says, `Not published: ${reasonOf(error)}`);
    }
  }

  return el(
    "form",
    { class: "stack", onsubmit: submit },
    el(
      "fieldset",
      { disabled: !mayPublish },
      el("label", { for: "data" }, "JSON to publish"),
      field,
      problem,
      el("button", { type: "submit", class: "main" }, "Publish"),
    ),
    mayPublish ? says : el("p", { class: "note" }, "Your key looks, and no more: its scopes lack publish."),
  );
}

// Form to publish JSON on a channel, exactly as typed. Invalid JSON is reported at the field.

import { request } from "./api.js";
import { el, setText } from "./dom.js";
import { failureOf } from "./failure_text.js";

export function publishForm(channel, live, published) {
  const problem = el("p", { id: "data-problem", class: "problem", hidden: true });
  const field = el("textarea", { id: "data", rows: 4, spellcheck: "false", autocomplete: "off", "aria-describedby": "data-problem" });
  const statusLine = el("p", { class: "note", role: "status" });
  const mayPublish = live.may("publish");
  let isUnderWay = false;
  field.value = '{"any": "json"}';

  function refuse(text) {
    problem.hidden = text === null;
    setText(problem, text ?? "");
    if (text === null) field.removeAttribute("aria-invalid");
    else field.setAttribute("aria-invalid", "true");
  }

  async function submit(event) {
    event.preventDefault();
    if (isUnderWay) return;
    const data = field.value;
    try {
      JSON.parse(data);
    } catch (error) {
      refuse(`Invalid JSON: ${error.message}`);
      return field.focus();
    }
    refuse(null);
    isUnderWay = true;
    try {
      const { offset } = await request("POST", "/api/publish", { body: `{"channel":${JSON.stringify(channel)},"data":${data}}` });
      setText(statusLine, `Published with offset ${offset}.`);
      published();
    } catch (error) {
      setText(statusLine, failureOf(error, "published"));
    }
    isUnderWay = false;
  }

  // Ignores the second click of a double click, even if the first publish has already been answered.
  const click = (event) => event.detail > 1 && event.preventDefault();

  return el(
    "form",
    { class: "stack", onsubmit: submit },
    el(
      "fieldset",
      { disabled: !mayPublish },
      el("label", { for: "data" }, "JSON to publish"),
      field,
      problem,
      el("button", { type: "submit", class: "main", onclick: click }, "Publish"),
    ),
    mayPublish ? statusLine : el("p", { class: "note" }, "Your API key lacks the scope publish."),
  );
}

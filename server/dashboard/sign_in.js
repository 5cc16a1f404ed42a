// Asks for an API key. It is taken out of the field at once, and nowhere put but in the header of requests.

import { el } from "./dom.js";

export function signIn(root, error, signal, use) {
  root.classList.add("locked");
  const says = problem(error);
  const field = el("input", {
    id: "key",
    type: "password",
    required: true,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": says ? "key-problem key-note" : "key-note",
    "aria-invalid": says ? "true" : null,
  });
  const submit = (event) => {
    event.preventDefault();
    const key = field.value.trim();
    field.value = "";
    if (key) use(key);
  };
  root.append(
    el(
      "form",
      { class: "card sign-in", onsubmit: submit },
      el("h1", { tabindex: -1 }, "Sign in"),
      el("p", null, "This server wants a key of its admin API (auth.api_keys)."),
      el("label", { for: "key" }, "API key"),
      field,
      says && el("p", { id: "key-problem", class: "problem", role: "alert" }, says),
      el("p", { id: "key-note", class: "note" }, "It stays in the memory of this page, until you close or reload it."),
      el("button", { type: "submit", class: "main" }, "Sign in"),
    ),
  );
  field.focus();
}

// The first question is no answer to a key.
function problem(error) {
  if (!error?.wasAsked) return null;
  return error.status === 403 ? `This key cannot look: ${error.message}` : "The server does not know this key.";
}

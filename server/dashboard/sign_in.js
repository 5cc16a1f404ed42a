// Asks for an API key. It is taken out of the field at once, and nowhere put but in the header of requests.

import { el, setText } from "./dom.js";
import { count } from "./format.js";

// With the rest of a request's head, the server reads 16 KiB.
const LONGEST = 8192;

export function signIn(root, error, use) {
  root.classList.add("locked");
  const problem = el("p", { id: "key-problem", class: "problem", role: "alert", hidden: true });
  const field = el("input", {
    id: "key",
    type: "password",
    required: true,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": "key-problem key-note",
  });
  const complain = (text) => {
    problem.hidden = text === null;
    setText(problem, text ?? "");
    if (text === null) field.removeAttribute("aria-invalid");
    else field.setAttribute("aria-invalid", "true");
  };
  const submit = (event) => {
    event.preventDefault();
    const key = field.value.trim();
    field.value = "";
    const fault = faultOf(key);
    complain(fault);
    if (fault === null) use(key);
    else field.focus();
  };
  complain(refusalOf(error));
  root.append(
    el(
      "form",
      { class: "card sign-in", onsubmit: submit },
      el("h1", { tabindex: -1 }, "Sign in"),
      el("p", null, "This server wants a key of its admin API (auth.api_keys)."),
      el("label", { for: "key" }, "API key"),
      field,
      problem,
      el("p", { id: "key-note", class: "note" }, "It stays in the memory of this page, until you close or reload it."),
      el("button", { type: "submit", class: "main" }, "Sign in"),
    ),
  );
  field.focus();
}

// The first question is no answer to a key.
function refusalOf(error) {
  if (!error?.wasAsked) return null;
  return error.status === 403 ? `This key cannot look: ${error.message}` : "The server does not know this key.";
}

// A header cannot carry every text, and the server takes no key beyond that: such a text is never sent.
function faultOf(key) {
  if (key === "") return "This is no key: there is nothing in it but spaces.";
  if (key.length > LONGEST) return `This is no key: it has ${count(key.length)} characters, and at most ${count(LONGEST)} fit.`;
  const odd = Array.from(key).find((character) => !/[!-~]/.test(character));
  if (odd === undefined) return null;
  const point = odd.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return `This is no key: keys are of letters, digits and signs of ASCII, without spaces. It has a character that is none of these: U+${point}.`;
}

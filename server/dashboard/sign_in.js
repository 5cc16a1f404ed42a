// Asks for an API key. The key is removed from the field immediately, and only used in request headers.

import { el, setText } from "./dom.js";
import { count } from "./format.js";

// The server accepts 16 KiB for the whole head of a request.
const MAX_LENGTH = 8192;

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
  const showProblem = (text) => {
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
    showProblem(fault);
    if (fault === null) use(key);
    else field.focus();
  };
  showProblem(refusalOf(error));
  root.append(
    el(
      "form",
      { class: "card sign-in", onsubmit: submit },
      el("h1", { tabindex: -1 }, "Sign in"),
      el("p", null, "This server requires a key for its admin API (auth.api_keys)."),
      el("label", { for: "key" }, "API key"),
      field,
      problem,
      el("p", { id: "key-note", class: "note" }, "It is kept in this page's memory until you close or reload the page."),
      el("button", { type: "submit", class: "main" }, "Sign in"),
    ),
  );
  field.focus();
}

// Returns why the key was not accepted. The first response is not about the key, because its request had
// none.
function refusalOf(error) {
  if (!error?.wasAsked) return null;
  return error.status === 403 ? `Access denied: ${error.message}` : "The server does not accept this key.";
}

// A header cannot carry every text, and the server accepts only printable ASCII keys: other texts are never
// sent.
function faultOf(key) {
  if (key === "") return "Invalid key: it is empty.";
  if (key.length > MAX_LENGTH) return `Invalid key: it has ${count(key.length)} characters; the maximum is ${count(MAX_LENGTH)}.`;
  const odd = Array.from(key).find((character) => !/[!-~]/.test(character));
  if (odd === undefined) return null;
  const point = odd.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return `Invalid key: keys consist of printable ASCII characters without spaces. This one contains U+${point}.`;
}

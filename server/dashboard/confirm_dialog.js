// Confirmation dialog for actions that cannot be undone. Escape and Cancel dismiss it, and the focus returns
// to where it was. If the page is left, the dialog closes and counts as dismissed.

import { el } from "./dom.js";

// `about`: the target of the action, as texts and elements.
export function confirmed({ title, about, text, act }, signal) {
  const dialog = el(
    "dialog",
    { "aria-labelledby": "question", "aria-describedby": "question-about question-text" },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: "question" }, title),
      el("p", { id: "question-about" }, about),
      el("p", { id: "question-text" }, text),
      el(
        "div",
        { class: "answers" },
        el("button", { value: "", autofocus: true }, "Cancel"),
        el("button", { value: "yes", class: "danger" }, act),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  signal.addEventListener("abort", () => dialog.close());
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" && !signal.aborted);
    });
  });
}

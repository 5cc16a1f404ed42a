// A question before something is done that cannot be taken back. Escape and Cancel leave it; the focus returns to where it was.

import { el } from "./dom.js";

export function confirmed({ title, text, act }) {
  const dialog = el(
    "dialog",
    { "aria-labelledby": "question", "aria-describedby": "question-text" },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: "question" }, title),
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
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

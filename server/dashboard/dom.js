// Helpers to create elements. Content is set as text or attributes; no string is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export const el = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) => filled(document.createElementNS(SVG, name), attributes, children);

// `on*` are event listeners, `data` is the dataset. null and false are skipped.
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Changes the text only if it differs, so that selections and screen readers are not disturbed.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// Marks a button as inactive. `disabled` would make it lose the focus; its listeners check `isIdle` instead.
export const setIdle = (button, isIdle) => setAttribute(button, "aria-disabled", isIdle);

export const isIdle = (button) => button.ariaDisabled === "true";

// Creates an element for text from outside, such as a user name, and isolates its writing direction.
export const named = (text, more) => el("bdi", { class: "name", ...more }, text);

export const number = (name) => el("span", { class: "number", data: { name } }, "–");

export function heading(text, ...more) {
  return el("div", { class: "heading" }, el("h1", { tabindex: -1 }, text), ...more);
}

export function card(title, attributes, ...children) {
  const id = `card-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const { class: more = "", ...rest } = attributes ?? {};
  return el("section", { class: `card ${more}`, "aria-labelledby": id, ...rest }, el("h2", { id }, title), ...children);
}

// Creates a table whose rows have keys: `update` moves, adds and removes rows as needed and leaves the others
// alone, including their focus. A column is { title, number, wide } (`wide`: hidden on narrow screens).
// `make` returns the `cells` and `update(item)` of a row.
export function table(caption, columns, make, { hidden = false, more = "" } = {}) {
  const kind = ({ number, wide }) => [number && "figure", wide && "wide"].filter(Boolean).join(" ") || null;
  const heads = columns.map((column) => el("th", { scope: "col", class: kind(column) }, column.title));
  const body = el("tbody");
  const element = el(
    "table",
    { class: more || null },
    el("caption", { class: hidden ? "unseen" : null }, caption),
    el("thead", null, el("tr", null, heads)),
    body,
  );
  const rows = new Map();
  return { element, update };

  function update(items, keyOf) {
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    const keys = new Set(items.map(keyOf));
    for (const [key, row] of rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      rows.delete(key);
    }
    items.forEach((item, index) => {
      const key = keyOf(item);
      if (!rows.has(key)) rows.set(key, added(item));
      const row = rows.get(key);
      row.update?.(item);
      if (body.children[index] !== row.element) body.insertBefore(row.element, body.children[index] ?? null);
    });
    // Restore the focus, which an element loses when it is moved.
    if (focused !== document.activeElement) focused?.focus({ preventScroll: true });
  }

  function added(item) {
    const { cells, update } = make(item);
    const tag = (index) => (index === 0 ? { name: "th", scope: "row" } : { name: "td" });
    const made = cells.map((cell, index) => {
      const { name, ...attributes } = tag(index);
      return el(name, { ...attributes, class: kind(columns[index]) }, cell);
    });
    return { element: el("tr", null, made), update };
  }
}

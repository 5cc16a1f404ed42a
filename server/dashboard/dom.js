// Elements. What is put into them goes in as text or as an attribute: no string is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

export const el = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) => filled(document.createElementNS(SVG, name), attributes, children);

// `on*` are listeners, `data` is the dataset; null and false are left out.
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Only what has changed is written, so that selections and screen readers are left alone.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// A button that has nothing to do now. It is not `disabled`, for then it would drop the focus: its listeners ask `isIdle`.
export const setIdle = (button, isIdle) => setAttribute(button, "aria-disabled", isIdle);

export const isIdle = (button) => button.ariaDisabled === "true";

// A name that others chose: its direction stays its own.
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

// A table whose rows have keys: `update` moves, adds and takes away what has changed, and leaves the rest, with its focus, alone.
// A column: { title, number, wide } (`wide`: left out where there is little room). A row of `make` has `cells` and `update(item)`.
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
    // What is moved loses it.
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

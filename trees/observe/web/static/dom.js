// Makes and changes elements. Every text goes in as a text node: nothing here, and nothing that uses it, reads markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: `h("td", {class: "name", onclick: act}, "text", child)`. Falsy children and attributes are left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an element of SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(3).filter(given).map(node));
  return element;
}

function given(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}

function node(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** Put these children where others were. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(3).filter(given).map(node));
  return element;
}

/** Set a text, unless it is there already: an unchanged cell costs no layout. */
export function say(element, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Set an attribute, or take it away, unless it is so already. */
export function mark(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/** Place an element by its style: through CSSOM, which a policy without inline styles allows. */
export function place(element, styles) {
  for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value);
  return element;
}

/**
 * Make the children of `parent` those of `items`, in their order. An element stays as long as its key does, with its
 * focus, its selection and what somebody has typed into it.
 */
export function keyed(parent, items, key, make, update) {
  const had = parent.keyed ?? (parent.keyed = new Map());
  const now = new Map();
  let next = parent.firstChild;
  for (const item of items) {
    const id = key(item);
    const element = had.get(id) ?? make(item);
    had.delete(id);
    now.set(id, element);
    update?.(element, item);
    if (element === next) next = next.nextSibling;
    else parent.insertBefore(element, next);
  }
  for (const gone of had.values()) gone.remove();
  parent.keyed = now;
}

/** A list of names and values. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => given(value)).map(([name, value]) => [
    h("dt", {}, name), h("dd", {}, value),
  ]));
}

/** A table, with one line in its place where it has no rows. */
export function table(label, heads, rows, none) {
  if (!rows.length) return h("p", { class: "none" }, none);
  return h("div", { class: "scroll" }, h("table", { "aria-label": label },
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", { "data-head": heads[at] }, cell)))))));
}

/** A state, told by a sign and a word; the colour comes on top. */
export function badge(state) {
  return h("span", { class: "badge", "data-state": state ?? "unknown" }, words(state ?? "unknown"));
}

/** Change a badge; `more` is a word beside the state. */
export function rebadge(element, state, more = null) {
  mark(element, "data-state", state ?? "unknown");
  say(element, words(more ? `${state}, ${more}` : state ?? "unknown"));
}

/** A name in snake case as words. */
export function words(name) {
  return String(name).replaceAll("_", " ");
}

// Elements are made here and nowhere else. Whatever comes from an answer goes in as text or as the
// value of an attribute, never as HTML: names of peers and texts of problems may be anybody's.

const svgNames = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// h makes an HTML element: h("a", {href: "#"}, "text", [more]). Children that are null or false are left out.
export const h = (name, attributes, ...children) => build(document.createElement(name), attributes, children);

// svg makes an SVG element.
export const svg = (name, attributes, ...children) => build(document.createElementNS(svgNames, name), attributes, children);

// fill puts children in the place of all that an element has. What has the focus keeps it, if it is
// there again: it is known by its address or its data-key.
export function fill(element, ...children) {
  const active = document.activeElement;
  const key = active && element.contains(active) && focusKey(active);
  element.replaceChildren();
  add(element, children);
  if (!key) return;
  for (const e of element.querySelectorAll("a[href], [data-key]")) {
    if (focusKey(e) === key) {
      e.focus({ preventScroll: true });
      return;
    }
  }
}

const focusKey = (e) => e.dataset.key || e.getAttribute("href");

export const byId = (id) => document.getElementById(id);

// table makes a table. heads are texts, rows are lists of cells, which are what h takes as children, or
// th and td elements, and may have attributes as {row, cells}. The columns of numbers are at the right. On
// narrow screens a row is a block, in which every cell has its column's name.
export function table(heads, rows, { numbers = [], attributes = {} } = {}) {
  const side = (i) => (numbers.includes(i) ? "number" : null);
  const cell = (c, i) => {
    const e = c instanceof HTMLTableCellElement ? c : h("td", null, c);
    if (side(i)) e.classList.add("number");
    if (i > 0) e.dataset.label = heads[i];
    return e;
  };
  return h("table", { class: "rows", ...attributes },
    h("thead", null, h("tr", null, heads.map((t, i) => h("th", { scope: "col", class: side(i) }, t)))),
    h("tbody", null, rows.map((r) => (Array.isArray(r) ? h("tr", null, r.map(cell)) : h("tr", r.row, r.cells.map(cell))))));
}

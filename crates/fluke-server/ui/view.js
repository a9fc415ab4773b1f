// What a page shows, as a tree of plain values; and the document made to follow it.
//
// Nodes that stay keep their element, so that focus, selection and what is unfolded stay too.

const SVG = "http://www.w3.org/2000/svg";
const NOTHING = Object.freeze({});
/** What is in them, people change: the attribute is only what was in them first. */
const FIELDS = new Set(["input", "select", "textarea"]);

/** A node of the tree: `h("a", { href: "/" }, "Fleet")`. Text is always text, never markup. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? NOTHING, key: props?.key, children: flatten(children) };
}

/** What is not there keeps its place as an empty text, so that what follows keeps its element. */
function flatten(children) {
  const isNothing = (child) => child === null || child === undefined || typeof child === "boolean";
  return children.flat(Infinity).map((child) => (isNothing(child) ? "" : child));
}

/** Makes the children of `parent` be as `wanted` says. */
export function patch(parent, wanted) {
  const focused = document.activeElement;
  children(parent, flatten([wanted]), false);
  // An element that is moved loses the focus.
  if (focused !== document.activeElement && focused?.isConnected && parent.contains(focused)) {
    focused.focus({ preventScroll: true });
  }
}

function children(parent, wanted, inSvg) {
  const keys = new Set(wanted.map((child) => child.key));
  const keyed = new Map();
  for (const node of [...parent.childNodes]) {
    if (node.$key === undefined) continue;
    if (keys.has(node.$key)) keyed.set(node.$key, node);
    else node.remove();
  }
  let at = parent.firstChild;
  for (const child of wanted) {
    let node = child.key === undefined ? at : keyed.get(child.key);
    if (!fits(node, child)) node = undefined;
    if (node === undefined) {
      parent.insertBefore(create(child, inSvg), at);
    } else if (node === at) {
      at = at.nextSibling;
      update(node, child, inSvg);
    } else {
      parent.insertBefore(node, at);
      update(node, child, inSvg);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function fits(node, child) {
  if (!node) return false;
  if (child.tag === undefined) return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === child.tag && node.$key === child.key;
}

function create(child, inSvg) {
  if (child.tag === undefined) return document.createTextNode(child);
  const svg = inSvg || child.tag === "svg";
  const node = svg ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag);
  node.$key = child.key;
  node.$props = NOTHING;
  const { initially } = child.props;
  for (const name in initially) assign(node, name, initially[name]);
  update(node, child, svg);
  child.props.made?.(node);
  return node;
}

function update(node, child, inSvg) {
  if (child.tag === undefined) {
    const text = String(child);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.$props;
  for (const name in before) {
    if (!(name in child.props)) assign(node, name, undefined);
  }
  for (const name in child.props) {
    const value = child.props[name];
    if (before[name] !== value || name === "css") assign(node, name, value);
  }
  node.$props = child.props;
  children(node, child.children, inSvg || child.tag === "svg");
  // Behind the children: a select has no value before it has options. People change it as well.
  if ("value" in child.props) assign(node, "value", child.props.value);
}

function assign(node, name, value) {
  if (name === "key" || name === "initially" || name === "made") return;
  if (name === "css") {
    for (const property in value) node.style.setProperty(property, value[property]);
  } else if (name.startsWith("on")) {
    node[name] = value ?? null;
  } else if (name === "value" && FIELDS.has(node.localName)) {
    if (node.value !== value) node.value = value ?? "";
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : value);
  }
}

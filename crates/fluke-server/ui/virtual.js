// Long lists: only what is in sight is in the document.

import { h } from "./view.js";

/** Pixels above and below the window that are shown all the same. */
const MARGIN = 400;

/**
 * A list that keeps its place between renderings. `height` is an item's in pixels, the gap below it
 * included; `row` draws it.
 */
export function longList(label) {
  let element = null;

  return function list(items, height, row, { columns = 1, ...props } = {}) {
    const lines = Math.ceil(items.length / columns);
    const { first, last } = inSight(element, lines, height);
    const positions = range(first * columns, Math.min(last * columns, items.length));
    // Out of sight, and still where the keyboard is.
    const focused = positionOf(focusedIn(element), items);
    if (focused >= 0 && !positions.includes(focused)) positions.push(focused);
    return h("ul", {
      ...props,
      "aria-label": label,
      made: (node) => { element = node; },
      css: { height: `${lines * height}px` },
    }, positions.map((position) => {
      const item = items[position];
      return h("li", {
        key: item.name,
        "aria-setsize": items.length,
        "aria-posinset": position + 1,
        css: {
          top: `${Math.floor(position / columns) * height}px`,
          left: `${(position % columns) * (100 / columns)}%`,
          width: `${100 / columns}%`,
        },
      }, row(item));
    }));
  };
}

const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index);

/** The name of the item that has the focus, if one has. */
function focusedIn(element) {
  const item = element?.contains(document.activeElement) && document.activeElement.closest("li");
  return item ? item.$key : undefined;
}

const positionOf = (name, items) => (name === undefined ? -1 : items.findIndex((item) => item.name === name));

function inSight(element, lines, height) {
  const top = element?.isConnected ? -element.getBoundingClientRect().top : 0;
  const first = Math.max(0, Math.floor((top - MARGIN) / height));
  const last = Math.ceil((top + innerHeight + MARGIN) / height);
  // Behind the end after a filter: the last lines rather than none.
  const start = Math.min(first, Math.max(0, lines - 1));
  return { first: start, last: Math.min(lines, Math.max(last, start + 1)) };
}

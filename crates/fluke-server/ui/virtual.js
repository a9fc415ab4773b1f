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
    const shown = items.slice(first * columns, last * columns);
    return h("ul", {
      ...props,
      "aria-label": label,
      made: (node) => { element = node; },
      css: { height: `${lines * height}px` },
    }, shown.map((item, index) => {
      const position = first * columns + index;
      return h("li", {
        key: item.name ?? item.id,
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

function inSight(element, lines, height) {
  const top = element?.isConnected ? -element.getBoundingClientRect().top : 0;
  const first = Math.max(0, Math.floor((top - MARGIN) / height));
  const last = Math.ceil((top + innerHeight + MARGIN) / height);
  // Behind the end after a filter: the last lines rather than none.
  const start = Math.min(first, Math.max(0, lines - 1));
  return { first: start, last: Math.min(lines, Math.max(last, start + 1)) };
}

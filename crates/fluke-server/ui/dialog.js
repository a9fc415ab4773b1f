// One dialog at a time, drawn like a page.

import { h, patch } from "./view.js";

const element = document.getElementById("dialog");
let current = null;
let opener = null;
let stage = null;

/** Opens a dialog; `render` tells its title and content whenever something changes. */
export function openDialog(render) {
  if (!current) opener = document.activeElement;
  current = render;
  renderDialog();
  if (!element.open) element.showModal();
}

export function closeDialog() {
  if (!element.open) return;
  element.close();
  closed();
}

export function renderDialog() {
  if (!current) return;
  const { title, body, actions } = current();
  patch(element, h("div", { class: "dialog-inner" },
    h("h2", { id: "dialog-title", tabindex: -1 }, title),
    h("div", { class: "dialog-body" }, body),
    h("div", { class: "dialog-actions" }, actions)));
  // Another stage is told, and the button that led to it may be gone.
  if (element.open && stage !== title) document.getElementById("dialog-title").focus();
  stage = title;
}

function closed() {
  current = null;
  stage = null;
  patch(element, []);
  const back = opener?.isConnected ? opener : document.getElementById("main");
  back?.focus({ preventScroll: true });
}

// The browser closes it by itself (Escape), and tells of every closing later: by then it may be open
// again, with something else in it.
element.addEventListener("close", () => {
  if (current && !element.open) closed();
});
// A click beside it closes it.
element.addEventListener("click", (event) => {
  if (event.target === element) closeDialog();
});

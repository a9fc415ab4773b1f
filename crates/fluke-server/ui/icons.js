// Every sign that is drawn. A status has a shape of its own: colour alone tells nobody enough.

import { h } from "./view.js";

const FILLED = {
  in_sync: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Z", "m4.9 8.2 2.2 2.2 4.1-4.6"],
  drifted: ["M6.7 1.900a1.5 1.5 0 0 1 2.6 0l5.6 9.900a1.5 1.5 0 0 1-1.3 2.200H2.400a1.5 1.5 0 0 1-1.3-2.200Z", "M8 5.600v3.400m0 2.400v.1"],
  failed: ["M5.3 1.200h5.400l4.1 4.100v5.400l-4.1 4.100H5.300l-4.1-4.100V5.300Z", "m5.6 5.6 4.8 4.800m0-4.8-4.8 4.8"],
  applying: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Z", "M11 8a3 3 0 1 1-1-2.300M11 3.900v2H9"],
  unknown: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Z", "M6.2 6.300a1.8 1.8 0 1 1 2.7 1.600c-.6.3-.9.7-.9 1.300m0 2.200v.1"],
  offline: ["M3.5 2h9A1.5 1.5 0 0 1 14 3.500v9a1.5 1.5 0 0 1-1.5 1.500h-9A1.5 1.5 0 0 1 2 12.500v-9A1.5 1.5 0 0 1 3.5 2Z", "M5 8h6"],
};
FILLED.plain = ["M8 4a4 4 0 1 1 0 8 4 4 0 0 1 0-8Z", ""];
FILLED.applied_but_drifted = FILLED.failed;

const DRAWN = {
  fleet: "M2.5 2.500h4v4h-4zm7 0h4v4h-4zm-7 7h4v4h-4zm7 0h4v4h-4z",
  drift: "M1.5 10.500c2-4 4.5-4 6.5-1.500s4.5 2.5 6.5-1.500M1.5 6.500c2-4 4.5-4 6.5-1.500s4.5 2.5 6.5-1.5",
  tasks: "m2 4 1.3 1.300L5.8 2.800M2 11l1.3 1.3 2.5-2.500M8.5 4.500h5.500m-5.5 7h5.5",
  services: "M8 1.500 14 4.800v6.400L8 14.500 2 11.200V4.800ZM2 4.800l6 3.300 6-3.300M8 8.100v6.4",
  events: "M8 1.700a6.3 6.3 0 1 1 0 12.600A6.3 6.3 0 0 1 8 1.700Zm0 2.800v3.700l2.4 1.6",
  source: "M8 5.200a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.600ZM8 1v4m0 6v4",
  rows: "M2 4h12M2 8h12M2 12h12",
  tiles: "M2 2.500h5v3.500H2zm7 0h5v3.500H9zM2 10h5v3.500H2zm7 0h5v3.500H9z",
  search: "M7 2.200a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 0 1 0-9.600Zm3.5 8.3 3.7 3.7",
  close: "m3.5 3.5 9 9m0-9-9 9",
  down: "m4 6 4 4 4-4",
  system: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Zm0 0v12M8 5h5M8 8h6M8 11h5",
  light: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6Zm0-4v1.500M8 13.500V15M1 8h1.500M13.5 8H15M3 3l1.1 1.100M11.9 11.9 13 13M3 13l1.1-1.100M11.9 4.1 13 3",
  dark: "M13.5 9.600A6 6 0 0 1 6.4 2.500a6 6 0 1 0 7.1 7.100Z",
  repair: "M13.5 8a5.5 5.5 0 1 1-1.7-4M13.5 1.500v3h-3",
  person: "M8 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6ZM2.5 14c.5-3 2.7-4.5 5.5-4.500s5 1.5 5.5 4.5",
  file: "M4 1.500h5l3.5 3.500v9.500H4zM9 1.500V5h3.5",
};

/** A status as a filled shape with its mark cut into it. */
export function statusIcon(status) {
  const [shape, mark] = FILLED[status] ?? FILLED.unknown;
  return h("svg", { class: `sign is-${status}`, viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    h("path", { d: shape }), h("path", { class: "mark", d: mark }));
}

/** Anything else, as a line drawing. */
export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    h("path", { d: DRAWN[name] }));
}

/** The mark of the house. */
export function mark() {
  return h("svg", { class: "mark", viewBox: "0 0 32 32", width: 26, height: 26, "aria-hidden": "true" },
    h("path", { d: "M16 28c.2-6.3-1-9.8-4-12.200C9.2 13.5 5.7 12.4 2.5 12c2-3.6 7.1-5.4 10.4-3.4 1.6 1 2.6 2.5 3.1 4.1.5-1.6 1.5-3.1 3.1-4.1 3.3-2 8.4-.2 10.4 3.4-3.2.4-6.7 1.5-9.5 3.8-3 2.4-4.2 5.9-4 12.200Z" }));
}

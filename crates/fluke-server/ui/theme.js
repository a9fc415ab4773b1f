// Light, dark, or as the system says; kept in this browser.

import { keep, kept } from "./kept.js";

const KEY = "fluke-theme";
const THEMES = ["system", "light", "dark"];

export function themeName() {
  const name = kept(KEY);
  return THEMES.includes(name) ? name : "system";
}

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(themeName()) + 1) % THEMES.length];
  keep(KEY, next);
  useTheme();
  dispatchEvent(new Event("resize"));
}

function useTheme() {
  const name = themeName();
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

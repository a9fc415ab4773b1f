// Light, dark, or as the system says; kept in this browser.

const KEY = "fluke-theme";
const THEMES = ["system", "light", "dark"];

export function themeName() {
  const kept = localStorage.getItem(KEY);
  return THEMES.includes(kept) ? kept : "system";
}

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(themeName()) + 1) % THEMES.length];
  localStorage.setItem(KEY, next);
  useTheme();
  dispatchEvent(new Event("resize"));
}

function useTheme() {
  const name = themeName();
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

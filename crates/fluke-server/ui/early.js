// Before the first paint: the theme that was chosen (see theme.js), so that nothing flashes.
try {
  const chosen = localStorage.getItem("fluke-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing has nothing chosen.
}

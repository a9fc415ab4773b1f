// Before the first paint: the theme that was chosen (see theme.js), so that nothing flashes.
{
  const kept = localStorage.getItem("fluke-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}

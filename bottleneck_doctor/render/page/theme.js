// Before anything is painted: the theme that was chosen here before, if one was.
try {
  const chosen = localStorage.getItem("bdoc-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden to a file; the system's theme holds then.
}

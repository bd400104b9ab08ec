// The theme that was chosen last, before anything is painted. Not a module: those run too late for that.
try {
  const chosen = localStorage.getItem("tidegate-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system.
}

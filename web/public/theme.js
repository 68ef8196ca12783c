// Sets the remembered theme before the first paint, so that a dark page does not flash white.
// A file of its own because the content policy forbids inline scripts. Kept in step with src/state/theme.svelte.ts.
try {
  const kept = localStorage.getItem("metier.theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // Storage can be forbidden; the system's preference then holds.
}

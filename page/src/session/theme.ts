import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "penstock.theme";

export const theme = signal<Theme>(read());

function read(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

/** Shows the page in the chosen theme. */
export function applyTheme(): void {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

/** Chooses a theme, here and in later visits. */
export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  applyTheme();
  try {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // A browser without storage: the theme lasts until the page is loaded again.
  }
}

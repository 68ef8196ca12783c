// Light or dark: the system's preference until someone chooses, then the choice. public/theme.js applies it before the first paint.

const KEY = "metier.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  #chosen = $state<"light" | "dark" | null>(null);
  #system = $state<"light" | "dark">(system.matches ? "dark" : "light");

  constructor() {
    const set = document.documentElement.dataset["theme"];
    if (set === "light" || set === "dark") this.#chosen = set;
    system.addEventListener("change", (event) => {
      this.#system = event.matches ? "dark" : "light";
    });
  }

  get now(): "light" | "dark" {
    return this.#chosen ?? this.#system;
  }

  toggle(): void {
    const next = this.now === "dark" ? "light" : "dark";
    this.#chosen = next;
    document.documentElement.dataset["theme"] = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Not remembered then.
    }
  }
}

export const theme = new Theme();

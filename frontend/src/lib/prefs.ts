/** What a reader chose for this browser: language and light or dark. Kept in localStorage. */

import { effect, signal } from "@preact/signals";

export type Lang = "zh" | "en";
export type Theme = "auto" | "light" | "dark";

function kept<T extends string>(name: string, known: readonly T[]): T | null {
  try {
    const value = localStorage.getItem(`previously.${name}`);
    return known.includes(value as T) ? (value as T) : null;
  } catch {
    return null; // storage may be forbidden; the page works without it
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`previously.${name}`, value);
  } catch {
    // as above
  }
}

const spoken: Lang = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
export const lang = signal<Lang>(kept("lang", ["zh", "en"] as const) ?? spoken);
export const theme = signal<Theme>(kept("theme", ["auto", "light", "dark"] as const) ?? "auto");

effect(() => {
  document.documentElement.lang = lang.value === "zh" ? "zh-CN" : "en";
});
effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});

export function chooseLang(value: Lang): void {
  lang.value = value;
  keep("lang", value);
}

export function chooseTheme(value: Theme): void {
  theme.value = value;
  keep("theme", value);
}

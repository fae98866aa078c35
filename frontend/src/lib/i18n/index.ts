/** Words in the reader's language. `{name}` is a value; `{n|floor|floors}` adds the right form. */

import { lang } from "../prefs";
import { en } from "./en";
import { zh } from "./zh";

export type Word = keyof typeof en;
export type Values = Record<string, string | number>;

const tables: Record<"zh" | "en", Record<Word, string>> = { zh, en };

export function t(word: Word, values: Values = {}): string {
  return tables[lang.value][word].replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (all, name, one, many) => {
    const value = values[name as string];
    if (value === undefined) return all as string;
    const shown = typeof value === "number" ? number(value) : value;
    if (one === undefined) return shown;
    return `${shown} ${value === 1 ? one : many}`;
  });
}

/** A sentence that the server says in English only, in the reader's language where it is known. */
export function said(sentence: string): string {
  const beside = /^beside #(\d+)$/.exec(sentence);
  if (beside) return t("said.beside", { n: Number(beside[1]) });
  const [kind = "", ...names] = sentence.split(": ");
  if (names.length && known("said", slug(kind), "")) return `${said(kind)}: ${names.join(": ")}`;
  return known("said", slug(sentence), sentence);
}

function slug(sentence: string): string {
  return sentence.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");
}

/** The word if there is one, else what the server said. */
export function known(prefix: string, code: string, otherwise: string = code): string {
  const word = `${prefix}.${code}` as Word;
  return word in en ? t(word) : otherwise;
}

const locale = (): string => (lang.value === "zh" ? "zh-CN" : "en");

export function number(value: number, digits = 0): string {
  return value.toLocaleString(locale(), { maximumFractionDigits: digits });
}

/** "Floors 3–9", or one. */
export function floors(first: number, last: number | null = null): string {
  if (last === null || last <= first) return t("floor.n", { n: first });
  return t("floors.range", { first, last });
}

export function money(usd: number): string {
  const digits = usd > 0 && usd < 0.1 ? 4 : 2;
  return `$${usd.toLocaleString(locale(), { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

export function percent(share: number): string {
  return share.toLocaleString(locale(), { style: "percent", maximumFractionDigits: 0 });
}

export function when(ms: number): string {
  const date = new Date(ms);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(
    locale(),
    today
      ? { hour: "2-digit", minute: "2-digit" }
      : { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" },
  );
}

/** How long until a moment, or since it, in words. */
export function fromNow(ms: number): string {
  const seconds = Math.round((ms - Date.now()) / 1000);
  const words = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" });
  const size = Math.abs(seconds);
  if (size < 60) return words.format(seconds, "second");
  if (size < 3600) return words.format(Math.round(seconds / 60), "minute");
  if (size < 86400) return words.format(Math.round(seconds / 3600), "hour");
  return words.format(Math.round(seconds / 86400), "day");
}

export function duration(seconds: number): string {
  if (seconds < 90) return t("time.seconds", { n: Math.max(1, Math.round(seconds)) });
  if (seconds < 5400) return t("time.minutes", { n: Math.round(seconds / 60) });
  return t("time.hours", { n: Math.round(seconds / 3600) });
}

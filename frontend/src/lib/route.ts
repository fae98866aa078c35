/** Where the reader is, kept in the address after `#`, so that it can be linked to and gone back to. */

import { signal } from "@preact/signals";

export const TABS = [
  "start", "chats", "history", "summaries", "prompt", "charts", "tasks", "settings",
] as const;
export type Tab = (typeof TABS)[number];

/** Tabs that are about one chat. */
export const OF_A_CHAT: readonly Tab[] = ["history", "summaries", "prompt", "charts"];

export interface Route {
  tab: Tab;
  chat: string; // empty: none chosen
  params: Record<string, string>;
}

function read(): Route {
  const { tab = "", chat = "", ...params } = Object.fromEntries(
    new URLSearchParams(location.hash.slice(1)),
  );
  return { tab: TABS.includes(tab as Tab) ? (tab as Tab) : "start", chat, params };
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

export interface Target {
  tab?: Tab;
  chat?: string;
  [param: string]: string | number | undefined;
}

/** The address of a place; the chat stays the chosen one unless another is named. */
export function href(target: Target): string {
  const { tab = route.value.tab, chat = route.value.chat, ...params } = target;
  const query = new URLSearchParams({ tab });
  if (chat) query.set("chat", chat);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  return `#${query}`;
}

export function go(target: Target): void {
  location.hash = href(target);
}

/** Like `go`, but the way back does not lead through every step of a slider or a pager. */
export function replace(target: Target): void {
  history.replaceState(null, "", href(target));
  route.value = read();
}

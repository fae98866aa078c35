/** What several tabs need to know: which chats there are, and how much is waiting. */

import { computed, effect, signal } from "@preact/signals";
import { get, Problem } from "./api";
import { listen, reachable } from "./live";
import { route } from "./route";
import type { About, ChatFull, Tasks } from "./api-types";

export const chat = signal<ChatFull | null>(null);
/** What the server is and can do. */
export const about = signal<About | null>(null);
export const waiting = signal(0);
export const chatTitle = computed(() => (chat.value?.id === route.value.chat ? titleOf(chat.value) : ""));

export function titleOf(one: { title?: string | null; name: string }): string {
  return one.title || one.name;
}

async function refreshChat(): Promise<void> {
  const { chat: id } = route.value;
  if (!id) {
    chat.value = null;
    return;
  }
  await quietly(async () => {
    const found = await get<ChatFull>(`chats/${encodeURIComponent(id)}`);
    if (route.value.chat === id) chat.value = found;
  });
}

async function refreshAbout(): Promise<void> {
  await quietly(async () => {
    about.value = await get<About>("about");
  });
}

async function refreshWaiting(): Promise<void> {
  await quietly(async () => {
    waiting.value = (await get<Tasks>("tasks")).items.length;
  });
}

/** The view itself shows what went wrong; the frame around it only lacks a name or a number. */
async function quietly(work: () => Promise<void>): Promise<void> {
  try {
    await work();
    reachable.value = true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

export function followChats(): void {
  const chosen = computed(() => route.value.chat);
  effect(() => {
    void chosen.value;
    void refreshChat();
  });
  void refreshAbout();
  void refreshWaiting();
  let timer = 0;
  listen((change) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      if (change.kind === "hello") void refreshAbout();
      void refreshWaiting();
      if (!change.chat || change.chat === route.value.chat) void refreshChat();
    }, 300);
  });
}

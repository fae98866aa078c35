/**
 * What the server tells while this page is looked at.
 *
 * A browser has six connections per server: the stream is open only while the page is visible. On
 * every connect all views ask again, so that nothing is lost by sleep, a hidden tab or a restart.
 */

import { signal } from "@preact/signals";

export interface Change {
  kind: "hello" | "chat"; // a chat that is gone has changed, too
  chat: string; // empty: not about one chat
}

type Listener = (change: Change) => void;

const RETRY_MS = 1_500;
const listeners = new Set<Listener>();

/** False while the server cannot be reached. */
export const reachable = signal(true);

let source: EventSource | null = null;
let retry = 0;
let greeted = false;

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(change: Change): void {
  for (const listener of [...listeners]) listener(change);
}

function open(): void {
  clearTimeout(retry);
  if (source || document.visibilityState === "hidden") return;
  source = new EventSource("/api/events");
  source.addEventListener("hello", () => {
    reachable.value = true;
    // The first view is loading already; after that, a greeting means that something was missed.
    if (greeted) tell({ kind: "hello", chat: "" });
    greeted = true;
  });
  for (const event of ["chat", "gone"]) {
    source.addEventListener(event, (said) => tell({ kind: "chat", chat: chatOf(said as MessageEvent<string>) }));
  }
  source.onerror = () => {
    close();
    reachable.value = false;
    retry = window.setTimeout(open, RETRY_MS);
  };
}

function chatOf(event: MessageEvent<string>): string {
  try {
    return (JSON.parse(event.data) as { chat?: string }).chat ?? "";
  } catch {
    return "";
  }
}

function close(): void {
  source?.close();
  source = null;
}

export function goLive(): void {
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") {
      clearTimeout(retry);
      close();
    } else {
      open();
    }
  });
  open();
}

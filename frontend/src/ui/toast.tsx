/** Short notes at the foot of the page: what was done, and how to take it back. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Problem } from "../lib/api";
import { t } from "../lib/i18n";

interface Toast {
  id: number;
  text: string;
  undo: (() => void) | null;
}

const SHOWN_MS = 7_000;
const UNDO_MS = 30_000; // time to read it, and to reach the button
const toasts = signal<Toast[]>([]);
let last = 0;

export function say(text: string, undo: (() => void) | null = null): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-2), { id, text, undo }];
  setTimeout(() => forget(id), undo ? UNDO_MS : SHOWN_MS);
}

function forget(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** What to tell a reader about something that went wrong. */
export function words(error: unknown): string {
  if (!(error instanceof Problem)) return String(error);
  if (error.status === 0) return t("problem.away");
  if (error.status === 401) return t("problem.token");
  return error.detail || t("problem.status", { status: String(error.status) });
}

/** Do something and say what came of it; a problem is said, never swallowed. */
export async function attempt<T>(work: Promise<T>, done = ""): Promise<T | null> {
  try {
    const result = await work;
    if (done) say(done);
    return result;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    say(words(error));
    return null;
  }
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div class="toast" key={toast.id}>
          <span>{toast.text}</span>
          {toast.undo && (
            <button
              type="button"
              onClick={() => {
                forget(toast.id);
                toast.undo?.();
              }}
            >
              {t("undo")}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}

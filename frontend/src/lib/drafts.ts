/** Words that are not saved yet. They outlive a reload and a server that went away. */

const PREFIX = "previously.draft.";

export interface Draft {
  text: string;
  base: string; // the version that was read before writing began
}

export function findDraft(name: string): Draft | null {
  try {
    const stored = sessionStorage.getItem(PREFIX + name);
    return stored === null ? null : (JSON.parse(stored) as Draft);
  } catch {
    return null;
  }
}

export function keepDraft(name: string, draft: Draft): void {
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(draft));
  } catch {
    // full or forbidden: the open editor still holds the words
  }
}

export function dropDraft(name: string): void {
  try {
    sessionStorage.removeItem(PREFIX + name);
  } catch {
    // as above
  }
}

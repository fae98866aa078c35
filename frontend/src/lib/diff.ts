/** A word diff: Chinese by character, everything else by word. */

export interface Piece {
  kind: "same" | "added" | "removed";
  text: string;
}

const UNITS_MAX = 4_000; // beyond that the table of lengths is larger than a reader's patience

export function units(text: string): string[] {
  return text.match(/\p{Script=Han}|[\p{L}\p{N}_'’]+|\s+|[^\p{L}\p{N}\s]/gu) ?? [];
}

export function diff(before: string, after: string): Piece[] {
  const a = units(before);
  const b = units(after);
  if (a.length > UNITS_MAX || b.length > UNITS_MAX) {
    return [{ kind: "removed", text: before }, { kind: "added", text: after }];
  }
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (
    end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]
  ) end++;
  const pieces: Piece[] = [];
  push(pieces, "same", a.slice(0, start).join(""));
  middle(pieces, a.slice(start, a.length - end), b.slice(start, b.length - end));
  push(pieces, "same", a.slice(a.length - end).join(""));
  return pieces;
}

/** Longest common subsequence, walked from the front. */
function middle(pieces: Piece[], a: string[], b: string[]): void {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push(pieces, "same", a[i]!);
      i++;
      j++;
    } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)) {
      push(pieces, "removed", a[i++]!);
    } else {
      push(pieces, "added", b[j++]!);
    }
  }
}

function push(pieces: Piece[], kind: Piece["kind"], text: string): void {
  if (!text) return;
  const last = pieces.at(-1);
  if (last?.kind === kind) last.text += text;
  else pieces.push({ kind, text });
}

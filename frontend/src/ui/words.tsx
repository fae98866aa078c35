/** Two texts as one, with what came and what went. */

import type { JSX } from "preact";
import { diff } from "../lib/diff";

export function Words({ before, after }: { before: string; after: string }): JSX.Element {
  return (
    <p class="plain-text">
      {diff(before, after).map((piece, index) => {
        if (piece.kind === "added") return <ins key={index}>{piece.text}</ins>;
        if (piece.kind === "removed") return <del key={index}>{piece.text}</del>;
        return <span key={index}>{piece.text}</span>;
      })}
    </p>
  );
}

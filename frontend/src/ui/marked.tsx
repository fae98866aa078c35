/** Plain text in which what was searched for stands out. Places are counted in code points. */

import type { JSX } from "preact";

export function Marked({ text, marks }: { text: string; marks: readonly (readonly number[])[] }): JSX.Element {
  const points = [...text];
  const parts: JSX.Element[] = [];
  let at = 0;
  for (const [start = 0, end = 0] of marks) {
    if (start < at || end <= start) continue;
    parts.push(<span key={at}>{points.slice(at, start).join("")}</span>);
    parts.push(<mark key={`m${start}`}>{points.slice(start, end).join("")}</mark>);
    at = end;
  }
  parts.push(<span key="end">{points.slice(at).join("")}</span>);
  return <p class="plain-text">{parts}</p>;
}

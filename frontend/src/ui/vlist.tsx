/** A long list of which only what is seen is in the document. Rows may be of any height. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

interface Props {
  count: number;
  keyOf: (index: number) => string;
  row: (index: number) => ComponentChildren;
  label: string;
  estimate?: number; // px, of a row that was never seen
  at?: number | null; // a row to bring into view
}

const BEYOND = 500; // px above and below that are kept ready

export function VList({ count, keyOf, row, label, estimate = 150, at = null }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const sizes = useRef<ResizeObserver | null>(null);
  sizes.current ??= new ResizeObserver((entries) => {
    let changed = false;
    for (const { target } of entries) {
      const { dataset, offsetHeight } = target as HTMLElement;
      if (offsetHeight && heights.current.get(dataset["key"]!) !== offsetHeight) {
        heights.current.set(dataset["key"]!, offsetHeight);
        changed = true;
      }
    }
    if (changed) redraw(0);
  });
  const height = (index: number) => heights.current.get(keyOf(index)) ?? estimate;

  useEffect(() => () => sizes.current?.disconnect(), []);
  useLayoutEffect(() => redraw(0), []);
  useEffect(() => {
    if (at === null || !box.current) return;
    let top = 0;
    for (let index = 0; index < at; index++) top += height(index);
    box.current.scrollTop = top;
  }, [at, count > 0]);

  const top = box.current?.scrollTop ?? 0;
  const view = box.current?.clientHeight ?? 800;
  let above = 0;
  let first = 0;
  while (first < count && above + height(first) < top - BEYOND) above += height(first++);
  let end = first;
  let seen = above;
  while (end < count && seen < top + view + BEYOND) seen += height(end++);
  let below = 0;
  for (let index = end; index < count; index++) below += height(index);

  const items = [];
  for (let index = first; index < end; index++) {
    const key = keyOf(index);
    items.push(
      <div class="item" role="listitem" aria-posinset={index + 1} aria-setsize={count} key={key} data-key={key}
        ref={(element) => { if (element) sizes.current?.observe(element); }}>
        {row(index)}
      </div>,
    );
  }
  return (
    <div class="vlist" role="list" aria-label={label} tabIndex={0} ref={box} onScroll={() => redraw(0)}>
      <div style={{ height: `${above}px` }} />
      {items}
      <div style={{ height: `${below}px` }} />
    </div>
  );
}

/** Stacked columns in plain SVG: colours come from CSS, and the same numbers stand in a table. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { number, t } from "../lib/i18n";

export interface Series {
  name: string;
  hue: string;
  values: number[];
}

interface Props {
  title: string;
  labels: string[];
  series: Series[];
  limit?: { name: string; value: number }; // a line across
  lines?: Series[]; // drawn over the columns, for comparison
  what?: string; // what the labels are, at the head of the table
  height?: number;
  format?: (value: number) => string;
}

const LABEL = 44; // px that a label takes
const MARGIN = { left: 56, right: 12, top: 12, bottom: 28 };

/** Round numbers from 0 to at least `most`. */
export function ticks(most: number, count = 4): number[] {
  const rough = most / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough)! * power;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

export function Columns({ title, labels, series, limit, lines = [], what = "", height = 260, format = number }: Props): JSX.Element {
  const box = useRef<HTMLElement>(null);
  const width = useSignal(640);
  useEffect(() => {
    const sizes = new ResizeObserver(() => (width.value = Math.max(220, box.current?.clientWidth ?? 640)));
    sizes.observe(box.current!);
    return () => sizes.disconnect();
  }, []);
  const totals = labels.map((_, index) => series.reduce((sum, each) => sum + (each.values[index] ?? 0), 0));
  const marks = ticks(Math.max(1e-6, ...totals, ...lines.flatMap(({ values }) => values), limit?.value ?? 0));
  const top = marks.at(-1)!;
  const inner = { width: width.value - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const y = (value: number) => MARGIN.top + inner.height * (1 - value / top);
  const slot = inner.width / Math.max(1, labels.length);
  const column = Math.min(64, slot * (slot < 12 ? 0.86 : 0.62));
  const middle = (index: number) => MARGIN.left + slot * (index + 0.5);
  const every = Math.max(1, Math.ceil((labels.length * LABEL) / inner.width)); // as many as have room
  return (
    <figure class="chart" ref={box}>
      <figcaption><h2>{title}</h2></figcaption>
      <ul class="legend">
        {series.map((each) => <li key={each.name} class={`hue-${each.hue}`}><i />{each.name}</li>)}
        {lines.map((each) => <li key={each.name} class={`hue-${each.hue}`}><i class="rule" />{each.name}</li>)}
        {limit && <li class="hue-dropped"><i class="rule" />{limit.name}</li>}
      </ul>
      <svg viewBox={`0 0 ${width.value} ${height}`} height={height} role="img" aria-label={title}>
        {marks.map((mark) => (
          <g key={mark}>
            <line class="grid" x1={MARGIN.left} x2={width.value - MARGIN.right} y1={y(mark)} y2={y(mark)} />
            <text class="tick" x={MARGIN.left - 8} y={y(mark) + 4} text-anchor="end">{format(mark)}</text>
          </g>
        ))}
        {labels.map((label, index) => {
          const x = MARGIN.left + slot * index + (slot - column) / 2;
          let below = 0;
          return (
            <g key={label}>
              {series.map((each) => {
                const value = each.values[index] ?? 0;
                const from = y(below);
                below += value;
                return <rect key={each.name} class={`bar hue-${each.hue}`} x={x} y={y(below)} width={column} height={Math.max(0, from - y(below))} />;
              })}
              {index % every === 0 && <text class="tick" x={x + column / 2} y={height - 8} text-anchor="middle">{label}</text>}
            </g>
          );
        })}
        {lines.map((each) => (
          <polyline
            key={each.name}
            class={`line hue-${each.hue}`}
            points={each.values.map((value, index) => `${middle(index)},${y(value)}`).join(" ")}
          />
        ))}
        {limit && (
          <line class="line dashed hue-dropped" x1={MARGIN.left} x2={width.value - MARGIN.right} y1={y(limit.value)} y2={y(limit.value)} />
        )}
      </svg>
      <details>
        <summary>{t("chart.table")}</summary>
        <div class="wide-table" tabIndex={0} role="region" aria-label={title}>
          <table>
            <thead><tr><th>{what}</th>{[...series, ...lines].map((each) => <th class="num" key={each.name}>{each.name}</th>)}</tr></thead>
            <tbody>
              {labels.map((label, index) => (
                <tr key={label}>
                  <th scope="row">{label}</th>
                  {[...series, ...lines].map((each) => <td class="num" key={each.name}>{format(each.values[index] ?? 0)}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

// From a series as the API gives it to what is drawn: counters become rates, absent rows become gaps.
//
// In drawn values `null` is a gap and `undefined` is "no point here, the line goes on" (uPlot's own convention).
// A rate stands at the right end of the interval it was measured over, so rates are drawn as steps to the left.
// Nothing is invented: no rate before the first reading, none after the last.

import type { Column, Series } from "./api/records";

export type Drawn = (number | null | undefined)[];

/** A column's numbers, with `null` where it holds none. */
export function numbers(column: Column): (number | null)[] {
  const source: (number | null)[] = "integer" in column.values ? column.values.integer : column.values.float;
  const out = source.slice();
  for (const row of column.absent ?? []) if (row < out.length) out[row] = null;
  for (let i = 0; i < out.length; i++) if (out[i] !== null && !Number.isFinite(out[i])) out[i] = null;
  return out;
}

/**
 * Change per second of a counter.
 *
 * Absent rows do not break it: the next reading covers the whole time since the last one. Readings closer than
 * `minimumGap` seconds are joined, because a rate over a sliver of time shows only the jitter of sampling.
 * A counter that goes back (a meter that was reset) leaves a gap.
 */
export function rates(times: ArrayLike<number>, values: (number | null)[], minimumGap = 0): Drawn {
  const out: Drawn = new Array(values.length).fill(undefined);
  let lastTime = Number.NaN;
  let lastValue = Number.NaN;
  let emitted = -1;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const time = times[i];
    if (value === null || value === undefined || time === undefined) continue;
    if (Number.isNaN(lastTime)) {
      lastTime = time;
      lastValue = value;
      continue;
    }
    const elapsed = time - lastTime;
    if (value < lastValue) {
      out[i] = null;
    } else if (elapsed <= 0 || elapsed < minimumGap) {
      continue;
    } else {
      out[i] = (value - lastValue) / elapsed;
    }
    lastTime = time;
    lastValue = value;
    emitted = i;
  }
  // One interval that is shorter than the gap is still all there is.
  if (emitted < 0) {
    const last = values.length - 1;
    const value = values[last];
    const elapsed = (times[last] ?? Number.NaN) - lastTime;
    if (typeof value === "number" && elapsed > 0 && value >= lastValue) out[last] = (value - lastValue) / elapsed;
  }
  return out;
}

/** How many times the usual distance between readings may pass before a line is broken. */
const GAP_FACTOR = 3;

/**
 * A gauge as it is drawn: rows without a reading are passed over where the column is simply read less often than
 * its neighbours, and are a gap where readings are missing for longer than is usual for it.
 */
export function gauge(times: ArrayLike<number>, values: (number | null)[]): Drawn {
  const present: number[] = [];
  for (let i = 0; i < values.length; i++) if (values[i] !== null) present.push(i);
  if (present.length === values.length) return values;
  const distances: number[] = [];
  for (let i = 1; i < present.length; i++) distances.push((times[present[i] as number] as number) - (times[present[i - 1] as number] as number));
  const usual = distances.slice().sort((a, b) => a - b)[distances.length >> 1] ?? 0;
  const out: Drawn = values.map((value) => value ?? undefined);
  for (let i = 1; i < present.length; i++) {
    const [from, to] = [present[i - 1] as number, present[i] as number];
    if (to - from > 1 && (distances[i - 1] as number) > GAP_FACTOR * usual) out.fill(null, from + 1, to);
  }
  return out;
}

/** Sums of the first 1, 2, … columns, row by row; a row that lacks a part has no sum from there on. */
export function stack(columns: Drawn[]): Drawn[] {
  const sums: Drawn[] = [];
  for (const [index, column] of columns.entries()) {
    const below = sums[index - 1];
    sums.push(
      column.map((value, row) => {
        if (below === undefined || value === null || value === undefined) return value;
        const under = below[row];
        return under === null || under === undefined ? under : under + value;
      }),
    );
  }
  return sums;
}

/** First index whose time is not before `time`. */
export function lowerBound(times: ArrayLike<number>, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The value to read out at a moment: for rates that of the interval which holds it, for gauges the nearest sample.
 * `null` where there is none.
 */
export function valueAt(times: ArrayLike<number>, values: Drawn, isRate: boolean, time: number): number | null {
  const n = times.length;
  if (n === 0) return null;
  let at = lowerBound(times, time);
  if (isRate) {
    if (time < (times[0] as number)) return null;
    while (at < n && values[at] === undefined) at++;
    return at < n ? (values[at] ?? null) : null;
  }
  if (at >= n) at = n - 1;
  if (at > 0 && time - (times[at - 1] as number) < (times[at] as number) - time) at--;
  // Rows that belong to another of several joined series hold `undefined`: look to both sides.
  for (let away = 0; away < n; away++) {
    const left = values[at - away];
    const right = values[at + away];
    if (left !== undefined) return left;
    if (right !== undefined) return right;
  }
  return null;
}

/** Times in seconds. */
export function secondsOf(series: Series): Float64Array {
  const out = new Float64Array(series.times.length);
  for (let i = 0; i < out.length; i++) out[i] = (series.times[i] as number) / 1e9;
  return out;
}

/** Several time columns as one, with each one's values spread over it. */
export function join(parts: { times: ArrayLike<number>; columns: Drawn[] }[]): { times: Float64Array; columns: Drawn[] } {
  const total = parts.reduce((sum, part) => sum + part.times.length, 0);
  const all = new Float64Array(total);
  let filled = 0;
  for (const part of parts) {
    for (let i = 0; i < part.times.length; i++) all[filled++] = part.times[i] as number;
  }
  all.sort();
  let distinct = 0;
  for (let i = 0; i < total; i++) if (i === 0 || all[i] !== all[distinct - 1]) all[distinct++] = all[i] as number;
  const times = all.slice(0, distinct);
  const columns: Drawn[] = [];
  for (const part of parts) {
    const rows = new Array<number>(part.times.length);
    let row = 0;
    for (let i = 0; i < part.times.length; i++) {
      while ((times[row] as number) < (part.times[i] as number)) row++;
      rows[i] = row;
    }
    for (const column of part.columns) {
      const out: Drawn = new Array(distinct).fill(undefined);
      for (let i = 0; i < rows.length; i++) out[rows[i] as number] = column[i];
      columns.push(out);
    }
  }
  return { times, columns };
}

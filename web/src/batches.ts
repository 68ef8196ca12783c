// Joins neighbouring runs of one batch into one group for the list, with the figures of its measured runs.

import type { RunRow } from "./api/records";

export type ListItem = { kind: "run"; run: RunRow } | { kind: "batch"; id: string; runs: RunRow[] };

/** Neighbours of the same batch become a group; a run that stands alone stays alone. The order does not change. */
export function group(runs: RunRow[]): ListItem[] {
  const out: ListItem[] = [];
  for (let i = 0; i < runs.length; ) {
    const first = runs[i] as RunRow;
    let end = i + 1;
    while (end < runs.length && runs[end]?.batch === first.batch) end++;
    out.push(end - i > 1 ? { kind: "batch", id: first.batch, runs: runs.slice(i, end) } : { kind: "run", run: first });
    i = end;
  }
  return out;
}

export function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = values.slice().sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

/** Median of a summary field over the runs that are not warm-ups. */
export function medianOf(runs: RunRow[], field: keyof RunRow["summary"]): number | null {
  const counted = runs.filter((run) => !run.warmup);
  return median((counted.length > 0 ? counted : runs).flatMap((run) => run.summary[field] ?? []));
}

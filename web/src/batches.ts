// Joins neighbouring runs of one batch into one group for the list, with the figures of its measured runs.

import type { RunRow } from "./api/records";

export type ListItem = { kind: "run"; run: RunRow } | { kind: "batch"; id: string; runs: RunRow[] };

/** Runs of the same batch become a group at the place of its first; a run that stands alone stays alone. */
export function group(runs: RunRow[]): ListItem[] {
  // Two batches that ran at the same time stand mixed in the list.
  const batches = new Map<string, RunRow[]>();
  for (const run of runs) {
    const batch = batches.get(run.batch);
    if (batch) batch.push(run);
    else batches.set(run.batch, [run]);
  }
  return [...batches].map(([id, all]) => (all.length > 1 ? { kind: "batch", id, runs: all } : { kind: "run", run: all[0] as RunRow }));
}

export function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = values.slice().sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

/** Median of a summary field over the runs that count: the server's rule, as on the terminal. */
export function medianOf(runs: RunRow[], field: keyof RunRow["summary"]): number | null {
  return median(runs.filter((run) => run.counted).flatMap((run) => run.summary[field] ?? []));
}

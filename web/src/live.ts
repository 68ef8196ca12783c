// What is known so far of a run under way, from its last samples; the record itself gets its figures at the end.

import type { Column, Quality, Run, Series, Summary } from "./api/records";
import { numbers } from "./series";
import { wallSeconds } from "./verdict";

function last(column: Column | undefined): number | null {
  if (column === undefined) return null;
  const values = numbers(column);
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i] ?? null;
  return null;
}

function most(column: Column | undefined): number | null {
  return column === undefined ? null : numbers(column).reduce((a, b) => (b !== null && (a === null || b > a) ? b : a), null);
}

/** The run with a summary of what samples have seen; a run that is over comes back as it is. */
export function soFar(run: Run, series: Series[], now: number): Run {
  if (run.state !== "running") return run;
  const use = series.find((one) => one.name === "use");
  const column = (name: string): Column | undefined => use?.columns.find((one) => one.name === name);
  const cpu = last(column("cpu"));
  const seen: Summary = {
    wall_seconds: wallSeconds(run, now),
    cpu_seconds: cpu === null ? null : cpu / 1e9,
    peak_memory_bytes: most(column("memory")),
    read_bytes: last(column("read")),
    written_bytes: last(column("written")),
  };
  const summary: Summary = { ...run.summary };
  const quality: Record<string, Quality> = { ...run.quality };
  for (const [name, value] of Object.entries(seen) as [keyof Summary, number | null][]) {
    if (value === null || typeof summary[name] === "number") continue;
    summary[name] = value;
    quality[`summary.${name}`] = "sampled";
  }
  return { ...run, summary, quality };
}

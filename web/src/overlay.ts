// Time lines of several runs laid over each other: one panel for each quantity, one line for each run.

import type { Maybe, Series } from "./api/records";
import { panels as panelsOf, type Line, type Panel } from "./panels";
import { shortId } from "./quantity";
import { join } from "./series";

export interface OverlaidRun {
  id: string;
  side: "a" | "b";
  series: Series[];
  /** The record's peak of busy cores. */
  peakCores?: Maybe<number>;
}

const WANTED = [
  { key: "cpu", line: "CPU", title: "CPU" },
  { key: "memory", line: "total", title: "Memory" },
  { key: "io", line: "read", title: "Read" },
  { key: "io", line: "written", title: "Written" },
];

export function overlay(runs: OverlaidRun[], minimumGap: number): Panel[] {
  const each = runs.map((run) => ({ run, panels: panelsOf(run.series, minimumGap, run.peakCores) }));
  return WANTED.flatMap(({ key, line: wanted, title }) => {
    const found = each.flatMap(({ run, panels }) => {
      const panel = panels.find((candidate) => candidate.key === key);
      const line = panel?.lines.find((candidate) => candidate.label === wanted);
      return panel !== undefined && line !== undefined ? [{ run, panel, line }] : [];
    });
    const first = found[0];
    if (first === undefined) return [];
    const joined = join(found.map(({ panel, line }) => ({ times: panel.times, columns: [line.values] })));
    const lines = found.map(
      ({ run, line }, i): Line => ({
        label: `${run.side.toUpperCase()} ${shortId(run.id)}`,
        group: run.side.toUpperCase(),
        colour: run.side === "a" ? "--side-a" : "--side-b",
        values: joined.columns[i] ?? [],
        peak: line.peak,
        isRate: line.isRate,
        isThin: found.length > 4,
      }),
    );
    return [{ key: `${key}-${wanted}`, title, isHost: false, times: joined.times, lines, bands: [], write: first.panel.write, isBinary: first.panel.isBinary }];
  });
}

// Which panels a run's time line has, and the lines in each. One entry of a table for each known panel;
// columns that no entry names still get a panel of their own, so that a newer server's data is not hidden.

import type { Column, Maybe, Series } from "./api/records";
import * as q from "./quantity";
import { gauge, numbers, rates, secondsOf, stack, type Drawn } from "./series";

export interface Line {
  label: string;
  /** Lines of one group share an entry of the legend. */
  group?: string;
  /** CSS variable that holds its colour. */
  colour: string;
  /** What the read-out shows. */
  values: Drawn;
  /** What is drawn, where that differs (stacked parts). */
  drawn?: Drawn;
  isRate: boolean;
  /** The largest value over the whole, where the record knows it better than what is drawn. */
  peak?: Maybe<number>;
  isArea?: boolean;
  isThin?: boolean;
}

export interface Panel {
  key: string;
  title: string;
  /** Whether it is about the host around the run. */
  isHost: boolean;
  times: Float64Array;
  lines: Line[];
  /** Pairs of lines (upper, lower) between which is filled. */
  bands: [number, number][];
  /** How much of its colour a band has, as two digits of a colour. */
  bandShade?: string;
  write: (value: number) => string;
  /** Binary steps on the axis. */
  isBinary: boolean;
  /** How moments are written on the axis; seconds since the start of a run unless given. */
  writeTime?: (time: number, step: number) => string;
}

interface Entry {
  key: string;
  title: string;
  series: string;
  write: (value: number) => string;
  isBinary?: boolean;
  /** Multiplies drawn values, for example nanoseconds per second to cores. */
  scale?: number;
  columns: { name: string; label: string; colour: string }[];
}

// The kernel brings a running task's CPU time up to date at its tick, every 1 to 10 ms: shorter rates show the tick.
export const SHORTEST_RATE_S = 0.1;

const perSecond = (value: number): string => `${q.bytes(value)}/s`;

const ENTRIES: Entry[] = [
  { key: "cpu", title: "CPU", series: "use", write: q.cores, scale: 1e-9, columns: [{ name: "cpu", label: "CPU", colour: "--c-cpu" }] },
  { key: "memory", title: "Memory", series: "use", write: q.bytes, isBinary: true, columns: [{ name: "memory", label: "total", colour: "--c-memory" }] },
  {
    key: "io",
    title: "Storage",
    series: "use",
    write: perSecond,
    isBinary: true,
    columns: [
      { name: "read", label: "read", colour: "--c-read" },
      { name: "written", label: "written", colour: "--c-written" },
    ],
  },
  { key: "processes", title: "Processes", series: "use", write: q.count, columns: [{ name: "processes", label: "processes", colour: "--c-processes" }] },
  {
    key: "host-cpu",
    title: "Host CPU",
    series: "host",
    write: q.cores,
    scale: 1e-9,
    columns: [
      { name: "busy", label: "busy", colour: "--c-cpu" },
      { name: "steal", label: "stolen", colour: "--c-bad" },
    ],
  },
  {
    key: "pressure",
    title: "Host pressure",
    series: "host",
    write: q.ratio,
    scale: 1e-9,
    columns: [
      { name: "cpu_pressure", label: "CPU", colour: "--c-cpu" },
      { name: "memory_pressure", label: "memory", colour: "--c-memory" },
      { name: "io_pressure", label: "storage", colour: "--c-written" },
    ],
  },
  { key: "available", title: "Host memory available", series: "host", write: q.bytes, isBinary: true, columns: [{ name: "memory_available", label: "available", colour: "--c-memory" }] },
  { key: "load", title: "Host load", series: "host", write: q.threeDigits, columns: [{ name: "load1", label: "load over 1 min", colour: "--c-processes" }] },
  { key: "frequency", title: "Host frequency", series: "host", write: q.hertz, columns: [{ name: "frequency", label: "mean", colour: "--c-read" }] },
  { key: "temperature", title: "Host temperature", series: "host", write: q.celsius, columns: [{ name: "temperature", label: "hottest", colour: "--c-bad" }] },
];

const PARTS = [
  { name: "anonymous", label: "anonymous", colour: "--c-anonymous" },
  { name: "file", label: "page cache", colour: "--c-file" },
  { name: "kernel", label: "kernel", colour: "--c-kernel" },
];

/** How a column that no entry names is drawn: its unit, per second if it counts. */
function unnamed(column: Column): { write: (value: number) => string; scale: number } {
  const isCounter = column.kind === "counter";
  switch (column.unit) {
    case "microjoules":
      return { write: isCounter ? q.watts : q.joules, scale: 1e-6 };
    case "joules":
      return { write: isCounter ? q.watts : q.joules, scale: 1 };
    case "nanoseconds":
      return isCounter ? { write: q.cores, scale: 1e-9 } : { write: q.seconds, scale: 1e-9 };
    case "seconds":
      return isCounter ? { write: q.ratio, scale: 1 } : { write: q.seconds, scale: 1 };
    case "bytes":
      return { write: isCounter ? perSecond : q.bytes, scale: 1 };
    default: {
      const write = (value: number): string => q.quantity(value, column.unit) + (isCounter ? "/s" : "");
      return { write, scale: 1 };
    }
  }
}

function values(times: Float64Array, column: Column, scale: number, minimumGap: number): Drawn {
  const raw = numbers(column);
  const drawn: Drawn = column.kind === "counter" ? withStart(rates(times, raw, minimumGap), raw) : gauge(times, raw);
  return scale === 1 ? drawn : drawn.map((value) => (typeof value === "number" ? value * scale : value));
}

/** Steps to the left need a point at the start of the first interval to be drawn over it. */
function withStart(drawn: Drawn, raw: (number | null)[]): Drawn {
  const start = raw.findIndex((value) => value !== null);
  const first = drawn.find((value) => value !== undefined);
  if (start >= 0 && drawn[start] === undefined && first !== undefined) drawn[start] = first;
  return drawn;
}

const hasAny = (drawn: Drawn): boolean => drawn.some((value) => typeof value === "number");

/**
 * The panels of a run, in the order in which they are shown. Rates over less than `minimumGap` seconds are joined.
 * `peakCores` is the record's peak of busy cores: it is what is read out, and nothing is drawn above it.
 */
export function panels(all: Series[], minimumGap: number, peakCores?: Maybe<number>): Panel[] {
  const out: Panel[] = [];
  const used = new Set<string>();
  const timesOf = new Map<string, Float64Array>(all.map((series) => [series.name, secondsOf(series)]));
  for (const entry of ENTRIES) {
    const series = all.find((candidate) => candidate.name === entry.series);
    const times = timesOf.get(entry.series);
    if (series === undefined || times === undefined) continue;
    const column = (name: string): Column | undefined => series.columns.find((candidate) => candidate.name === name);
    const lines: Line[] = [];
    for (const want of entry.columns) {
      const found = column(want.name);
      if (found === undefined) continue;
      used.add(`${series.name}.${want.name}`);
      let drawn = values(times, found, entry.scale ?? 1, minimumGap);
      if (!hasAny(drawn)) continue;
      const peak = entry.key === "cpu" ? peakCores : null;
      if (typeof peak === "number") drawn = drawn.map((value) => (typeof value === "number" ? Math.min(value, peak) : value));
      lines.push({ label: want.label, colour: want.colour, values: drawn, peak, isRate: found.kind === "counter", isArea: entry.columns.length === 1 });
    }
    const bands: [number, number][] = [];
    if (entry.key === "memory") {
      const parts = PARTS.flatMap((part) => {
        const found = column(part.name);
        used.add(`${series.name}.${part.name}`);
        const drawn = found === undefined ? [] : values(times, found, 1, 0);
        return hasAny(drawn) ? [{ ...part, values: drawn }] : [];
      });
      if (parts.length > 0) {
        // The total is drawn last, over the parts, in a colour of its own.
        const totals = lines.splice(0).map((line) => ({ ...line, isArea: false, colour: "--c-total" }));
        const sums = stack(parts.map((part) => part.values));
        const first = lines.length;
        // Upper sums come first, so that each band lies between a line and the next.
        for (let i = parts.length - 1; i >= 0; i--) {
          const part = parts[i];
          if (part === undefined) continue;
          lines.push({ label: part.label, colour: part.colour, values: part.values, drawn: sums[i], isRate: false, isArea: i === 0, isThin: true });
          if (i > 0) bands.push([first + parts.length - 1 - i, first + parts.length - i]);
        }
        lines.push(...totals);
      }
    }
    if (lines.length > 0) {
      out.push({ key: entry.key, title: entry.title, isHost: entry.series === "host", times, lines, bands, write: entry.write, isBinary: entry.isBinary ?? false });
    }
  }
  return out.concat(unnamedPanels(all, timesOf, used, minimumGap));
}

const SPARE = ["--c-cpu", "--c-read", "--c-written", "--c-memory", "--c-processes", "--c-bad"];

function unnamedPanels(all: Series[], timesOf: Map<string, Float64Array>, used: Set<string>, minimumGap: number): Panel[] {
  const out = new Map<string, Panel>();
  for (const series of all) {
    const times = timesOf.get(series.name) ?? new Float64Array();
    for (const column of series.columns) {
      if (used.has(`${series.name}.${column.name}`)) continue;
      const { write, scale } = unnamed(column);
      const drawn = values(times, column, scale, minimumGap);
      if (!hasAny(drawn)) continue;
      const key = `${series.name}-${column.unit}-${column.kind}`;
      const isPower = column.kind === "counter" && (column.unit === "microjoules" || column.unit === "joules");
      const title = isPower ? "Power" : series.name.charAt(0).toUpperCase() + series.name.slice(1);
      const panel = out.get(key) ?? { key, title, isHost: series.name === "host", times, lines: [], bands: [], write, isBinary: column.unit === "bytes" };
      const colour = SPARE[panel.lines.length % SPARE.length] as string;
      panel.lines.push({ label: column.name.replaceAll("_", " "), colour, values: drawn, isRate: column.kind === "counter" });
      out.set(key, panel);
    }
  }
  return [...out.values()];
}

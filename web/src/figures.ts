// The figures of a run by dotted path, with their names for people. One row of a table for each.

import type { Maybe, Quality, Run } from "./api/records";
import { quantity, unitOfField } from "./quantity";

export interface Missing {
  reason: string;
  fix: string | null;
}

export interface Figure {
  path: string;
  label: string;
  value: string | null;
  quality: Quality | null;
  missing: Missing | null;
}

const SUMMARY: [string, string][] = [
  ["summary.wall_seconds", "Wall time"],
  ["summary.cpu_seconds", "CPU time"],
  ["summary.cpu_user_seconds", "CPU in program"],
  ["summary.cpu_system_seconds", "CPU in kernel"],
  ["summary.peak_memory_bytes", "Peak memory"],
  ["summary.read_bytes", "Read"],
  ["summary.written_bytes", "Written"],
  ["summary.energy_joules", "Energy"],
  ["summary.processes", "Processes"],
];

const DETAILS: [string, [string, string][]][] = [
  ["CPU", [
    ["cpu.peak_cores", "Peak cores"],
    ["cpu.voluntary_switches", "Switches, waited"],
    ["cpu.involuntary_switches", "Switches, turn over"],
    ["cpu.throttled_periods", "Throttled periods"],
    ["cpu.throttled_seconds", "Throttled time"],
    ["cpu.run_queue_seconds", "In the run queue"],
    ["cpu.run_queue_ratio", "… explains of the time"],
    ["pressure.cpu_seconds", "Some task waited for a core"],
  ]],
  ["Memory", [
    ["memory.peak_anonymous_bytes", "Peak anonymous"],
    ["memory.peak_file_bytes", "Peak page cache"],
    ["memory.peak_kernel_bytes", "Peak kernel"],
    ["memory.peak_resident_sum_bytes", "Peak sum of residents"],
    ["memory.peak_process_bytes", "Peak of one process"],
    ["memory.minor_faults", "Faults without IO"],
    ["memory.major_faults", "Faults with IO"],
    ["memory.oom_kills", "Killed for memory"],
    ["pressure.memory_seconds", "Some task waited for memory"],
  ]],
  ["Storage and network", [
    ["io.device_read_bytes", "Read from devices"],
    ["io.device_written_bytes", "Written to devices"],
    ["io.call_read_bytes", "Passed read calls"],
    ["io.call_written_bytes", "Passed write calls"],
    ["pressure.io_seconds", "Some task waited for storage"],
    ["network.received_bytes", "Received"],
    ["network.sent_bytes", "Sent"],
  ]],
  ["Energy", [
    ["energy.mean_power_watts", "Mean power"],
  ]],
];

export function splitMissing(text: string): Missing {
  const mark = "; fix: ";
  const at = text.indexOf(mark);
  return at < 0 ? { reason: text, fix: null } : { reason: text.slice(0, at), fix: text.slice(at + mark.length) };
}

/** The number at a dotted path, or null. */
export function numberAt(run: Run, path: string): number | null {
  let value: unknown = run;
  for (const part of path.split(".")) value = (value as Maybe<Record<string, unknown>>)?.[part];
  return typeof value === "number" ? value : null;
}

/** The nearest entry of a map by dotted path: `energy.mean_power_watts`, else `energy`. */
function nearest<T>(map: Maybe<Record<string, T>>, path: string): T | null {
  for (let key = path; key !== ""; key = key.slice(0, Math.max(0, key.lastIndexOf(".")))) {
    const found = map?.[key];
    if (found !== undefined) return found;
  }
  return null;
}

export function figure(run: Run, path: string, label: string): Figure {
  const value = numberAt(run, path);
  const why = value === null ? nearest(run.missing, path) : null;
  return {
    path,
    label,
    value: value === null ? null : quantity(value, unitOfField(path)),
    quality: value === null ? null : nearest(run.quality, path),
    missing: why === null ? null : splitMissing(why),
  };
}

export const summaryFigures = (run: Run): Figure[] => SUMMARY.map(([path, label]) => figure(run, path, label));

/** Groups of details; figures without a value and without a reason are left out. */
export function detailFigures(run: Run): { title: string; figures: Figure[] }[] {
  return DETAILS.map(([title, rows]) => ({
    title,
    figures: rows.map(([path, label]) => figure(run, path, label)).filter((f) => f.value !== null || f.missing !== null),
  })).filter((group) => group.figures.length > 0);
}

const LABELS = new Map([...SUMMARY, ...DETAILS.flatMap(([, rows]) => rows)]);

/** A name for people of any dotted path or bare field. */
export function labelOf(path: string): string {
  const known = LABELS.get(path) ?? LABELS.get(`summary.${path}`);
  if (known !== undefined) return known;
  return path.replace(".", ": ").replace(/_(seconds|bytes|joules|watts|ratio|hertz|celsius)$/, "").replaceAll("_", " ");
}

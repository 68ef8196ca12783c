// What the page makes of a node's power: sentences, the two charts, rows of consumers, predictors by machine. Pure, so that it can be tested without a browser.

import type { MaybeWatts, NodePower, PowerConsumer, PowerError, PowerMachine, PowerPredictor } from "./api/records";
import type { Line, Panel } from "./panels";
import { bytes, count, hertz, ratio, seconds, threeDigits, watts } from "./quantity";
import { stack, type Drawn } from "./series";

const OF: Record<NodePower["covers"], string> = { platform: "This node takes", package: "The processor of this node takes", "package-and-memory": "Processor and memory of this node take" };

/** The latest value that is there. */
export function latest(list: MaybeWatts): number | null {
  for (let i = list.length - 1; i >= 0; i--) if (typeof list[i] === "number") return list[i] ?? null;
  return null;
}

const last = (list: MaybeWatts): number | null => list.at(-1) ?? null;

/** What the node takes now, and how far that can be trusted. */
export function verdict(power: NodePower): string {
  if (power.times.length === 0) return "The first look at this node is under way.";
  const [measured, estimated, low, high] = [last(power.measured), last(power.estimated), last(power.low), last(power.high)];
  const who = OF[power.covers];
  const between = low !== null && high !== null ? `, in 90 of 100 cases between ${watts(low)} and ${watts(high)}` : "";
  if (measured !== null) {
    const said = estimated === null ? "" : ` The estimate says ${watts(estimated)}${between}.`;
    return `${who} ${watts(measured)} now, measured.${said}`;
  }
  if (estimated !== null) return `${who} about ${watts(estimated)} now, estimated${between}.`;
  return `Nobody can say what this node takes: ${power.missing["estimated"] ?? "nothing is known of its use"}.`;
}

/** How the estimate did against the meter, or why nobody can tell. */
export function against(power: NodePower): string {
  const compared = power.compared;
  if (compared) {
    const relative = typeof compared.mape_ratio === "number" ? ` (${ratio(compared.mape_ratio)})` : "";
    const side = Math.abs(compared.bias_watts) < compared.mae_watts / 4 ? "to either side" : compared.bias_watts > 0 ? "mostly too high" : "mostly too low";
    const inside = typeof compared.inside_ratio === "number" ? ` ${ratio(compared.inside_ratio)} of the measured values lie inside of their interval.` : "";
    return `Over ${seconds(spanned(power))} the estimate is off by ${watts(compared.mae_watts)}${relative} on average, ${side}.${inside}`;
  }
  if (power.missing["measured"] !== undefined) return `No meter: ${power.missing["measured"]}. All figures are estimated.`;
  return "";
}

const spanned = (power: NodePower): number => (power.times.at(-1) ?? 0) - (power.times[0] ?? 0) + power.interval_seconds;

const ORIGINS: Record<NodePower["idle_from"], string> = {
  "meter-fitted": "fitted to the meter: the power left without any workload",
  "meter-least": "the least that was measured so far, which is rather too much",
  predictor: "as the predictor says",
};

export const idleText = (power: NodePower): string => {
  const idle = latest(power.idle);
  return idle === null ? "" : `${watts(idle)} of it is idling: ${ORIGINS[power.idle_from]}.`;
};

/** Moments in seconds since 1970. */
export function moments(power: NodePower): Float64Array {
  const since = power.since ? new Date(power.since).getTime() / 1000 : 0;
  return Float64Array.from(power.times, (time) => since + time);
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const timeOfDay = (time: number, step: number): string => (step < 60 ? clockSeconds : clock).format(new Date(time * 1000));

/** An interval may reach ten times as far as the lines; then it is cut, so that the lines can be read. */
const CUT = 2.5;

const hasAny = (list: MaybeWatts): boolean => list.some((value) => typeof value === "number");
const largest = (...lists: MaybeWatts[]): number => Math.max(0, ...lists.flat().map((value) => value ?? 0));

/** Where intervals are cut; null where they are drawn whole. */
export function cutAt(power: NodePower): number | null {
  const top = CUT * largest(power.measured, power.estimated);
  return top > 0 && largest(power.high) > top ? top : null;
}

/** Measured and estimated power with its interval, and idling. */
export function overTime(power: NodePower): Panel {
  const lines: Line[] = [];
  const bands: [number, number][] = [];
  const line = (label: string, colour: string, values: MaybeWatts, some: Partial<Line> = {}): void => {
    if (hasAny(values)) lines.push({ label, colour, values, isRate: false, ...some });
  };
  if (hasAny(power.low) && hasAny(power.high)) {
    const cut = cutAt(power);
    const drawn = cut === null ? power.high : power.high.map((value) => (value === null ? null : Math.min(value, cut)));
    line("interval, upper end", "--c-file", power.high, { drawn, isThin: true, group: "interval" });
    line("interval, lower end", "--c-file", power.low, { isThin: true, group: "interval" });
    bands.push([0, 1]);
  }
  line("idling", "--line-strong", power.idle, { isThin: true });
  line("estimated", "--c-read", power.estimated);
  line("measured", "--c-written", power.measured);
  return { key: "power", title: "Power", isHost: true, times: moments(power), lines, bands, bandShade: "22", write: watts, isBinary: false, writeTime: timeOfDay };
}

const COLOURS = ["--c-cpu", "--c-written", "--c-read", "--c-memory", "--c-processes", "--c-kernel"];
/** Consumers that have a colour of their own. */
export const COLOURED = COLOURS.length;

export const colourOf = (index: number): string => COLOURS[index] ?? "--dim";

/** Idling at the bottom, all others, then those who take most: together what the node takes. */
export function stacked(power: NodePower): Panel {
  const rows = power.times.length;
  const isKnown = (row: number): boolean => typeof power.idle[row] === "number";
  // Where somebody is not told by name they are among the others, whose sum has them.
  const filled = (list: MaybeWatts): Drawn => Array.from({ length: rows }, (_, row) => (isKnown(row) ? (list[row] ?? 0) : null));
  const named = power.consumers.slice(0, COLOURED);
  const rest: Drawn = Array.from({ length: rows }, (_, row) => {
    if (!isKnown(row)) return null;
    return power.consumers.slice(COLOURED).reduce((sum, one) => sum + (one.watts[row] ?? 0), (power.others[row] ?? 0) + (power.unseen[row] ?? 0));
  });
  const parts = [
    { label: "idling", colour: "--line-strong", values: filled(power.idle) },
    { label: "all others", colour: "--dim", values: rest },
    ...named.map((one, index) => ({ label: one.name, colour: colourOf(index), values: filled(one.watts) })),
  ];
  const sums = stack(parts.map((part) => part.values));
  const lines: Line[] = [];
  const bands: [number, number][] = [];
  // Upper sums come first, so that each band lies between a line and the next.
  for (let i = parts.length - 1; i >= 0; i--) {
    const part = parts[i];
    if (part === undefined) continue;
    lines.push({ label: part.label, colour: part.colour, values: part.values, drawn: sums[i], isRate: false, isArea: i === 0, isThin: true });
    if (i > 0) bands.push([parts.length - 1 - i, parts.length - i]);
  }
  return { key: "shares", title: "Power by process", isHost: true, times: moments(power), lines, bands, write: watts, isBinary: false, writeTime: timeOfDay };
}

/** A consumer as the table shows it. */
export interface ConsumerRow {
  key: string;
  label: string;
  around: string;
  processes: number | null;
  mean: number;
  now: number | null;
  share: number;
  colour: string | null;
}

/** The name that people gave it. Identifiers of containers and pods are long; people know their beginnings. */
function around(consumer: PowerConsumer): string {
  if (!consumer.owner) return "";
  const { kind, id, name } = consumer.owner;
  if (name) return `${kind} ${name}`;
  return `${kind} ${kind === "container" || kind === "pod" ? id.slice(0, 12) : id}`;
}

function mean(list: MaybeWatts): number {
  const known = list.filter((value): value is number => typeof value === "number");
  return known.length === 0 ? 0 : known.reduce((a, b) => a + b, 0) / known.length;
}

/** Consumers, then all others, work that nobody was found for, and idling: the means add up to the node's. */
export function consumerRows(power: NodePower): ConsumerRow[] {
  const rows = power.consumers.map((one, index): ConsumerRow => ({
    key: `${one.owner?.kind ?? ""} ${one.owner?.id ?? ""} ${one.name}`,
    label: one.name,
    around: around(one),
    processes: one.processes,
    mean: one.mean_watts,
    now: last(one.watts),
    share: 0,
    colour: index < COLOURED ? colourOf(index) : null,
  }));
  const also = (key: string, label: string, text: string, list: MaybeWatts, colour: string | null): void => {
    if (hasAny(list)) rows.push({ key, label, around: text, processes: null, mean: mean(list), now: last(list), share: 0, colour });
  };
  also("others", "All other processes", "", power.others, null);
  also("unseen", "Not found", "interrupts, and processes that ended unseen", power.unseen, null);
  also("idle", "Idling", "what it would take if nobody worked", power.idle, "--line-strong");
  const all = rows.reduce((sum, row) => sum + row.mean, 0);
  return rows.map((row) => ({ ...row, share: all > 0 ? row.mean / all : 0 }));
}

/** A machine in words. */
export function machineText(machine: PowerMachine | null | undefined): string {
  if (!machine) return "a machine that its pipeline does not tell";
  const parts: string[] = [];
  if (machine.processor) parts.push(machine.processor.replaceAll("_", " "));
  if (typeof machine.cores === "number") parts.push(`${count(machine.cores)} threads`);
  if (typeof machine.chips === "number" && machine.chips > 1) parts.push(`${count(machine.chips)} chips`);
  if (typeof machine.memory_bytes === "number") parts.push(bytes(machine.memory_bytes));
  if (typeof machine.frequency_hertz === "number") parts.push(hertz(machine.frequency_hertz));
  return parts.length === 0 ? "a machine that its pipeline does not tell" : parts.join(", ");
}

/** How much a machine is like this one, in words. */
export const alike = (similarity: number): string => (similarity >= 0.9995 ? "like this one" : similarity < 0.005 ? "unlike this one" : `${Math.round(100 * similarity)} % like this one`);

/** Predictors that were learned on machines of one type. */
export interface MachineGroup {
  key: string;
  pipeline: string;
  nodeType: number;
  text: string;
  machines: number | null;
  similarity: number | null;
  predictors: PowerPredictor[];
}

/** By the machine that they were learned on, in the order in which the server tells them. */
export function byMachine(predictors: PowerPredictor[]): MachineGroup[] {
  const groups = new Map<string, MachineGroup>();
  for (const one of predictors) {
    const key = `${one.pipeline} ${one.node_type}`;
    const group = groups.get(key) ?? {
      key,
      pipeline: one.pipeline,
      nodeType: one.node_type,
      text: machineText(one.machine),
      machines: one.machines ?? null,
      similarity: one.similarity ?? null,
      predictors: [],
    };
    group.predictors.push(one);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** An error in words: `package 5.48 W (7.62 %)`. */
export function errorText(error: PowerError): string {
  const parts: string[] = [];
  if (typeof error.mae_watts === "number") parts.push(watts(error.mae_watts));
  if (typeof error.mape_ratio === "number") parts.push(parts.length > 0 ? `(${ratio(error.mape_ratio)})` : ratio(error.mape_ratio));
  return `${error.component ?? "all"} ${parts.join(" ")}`;
}

/** A component that takes no power on the machine is always right, and says nothing. */
export const telling = (errors: PowerError[]): PowerError[] => {
  const some = errors.filter((error) => error.mae_watts !== 0);
  return some.length > 0 ? some : errors;
};

export const trainerText = (trainer: string): string => trainer.replace(/Trainer$/, "").replace(/Regression$|Regressor$|Fit$/, "");

export const outputText = (type: string): string => (type === "AbsPower" ? "with idling" : "work alone");

const MISSING: Record<string, string> = {
  measured: "Measured power",
  estimated: "Estimated power",
  low: "The interval",
  processes: "Some processes",
  bpf_page_cache_hit: "The page cache",
  cpu_cycles: "The processor's counters",
};

/** What is not known, and why. */
export const missingRows = (missing: Record<string, string>): { field: string; label: string; reason: string }[] =>
  Object.entries(missing).map(([field, reason]) => ({ field, label: MISSING[field] ?? field, reason }));

/** What one core takes at rest and at full load, as the fallback has it. */
export const perCore = (idle: number, full: number): string => `${threeDigits(idle)} to ${threeDigits(full)} W a core`;

// What the page makes of a graph's answer: order of operators, places on logarithmic scales, words. Pure, so that it can be tested without a browser.

import type { DeviceTime, GraphOperator, GraphTimes, GraphValue, MeasuredGraph, OperatorTime, Prediction } from "./api/records";
import { seconds, threeDigits } from "./quantity";

export type Column = "order" | "time" | "multiply-adds" | "bytes" | "kind";

/** An operator as the table shows it. */
export interface OperatorRow {
  index: number;
  kind: string;
  name: string;
  inside: string;
  shape: string;
  /** All turns together; null where it is not known. */
  multiplyAdds: number | null;
  bytes: number | null;
  turns: number;
  seconds: number | null;
  share: number | null;
  /** What does it in passing. */
  within: string | null;
}

const times = (value: number | null | undefined, turns: number): number | null => (typeof value === "number" ? value * turns : null);

export function shapeText(value: GraphValue | undefined): string {
  if (value?.shape === null || value?.shape === undefined) return "?";
  return value.shape.length === 0 ? "one number" : value.shape.map((size) => size ?? "?").join(" × ");
}

function moved(operator: GraphOperator): number | null {
  const { read_bytes: read, written_bytes: written, turns } = operator;
  return typeof read === "number" && typeof written === "number" ? (read + written) * turns : null;
}

const label = (operator: GraphOperator | undefined): string => (operator === undefined ? "another" : operator.name === "" ? operator.kind : `${operator.kind} ${operator.name}`);

export function operatorRows(operators: GraphOperator[], predicted: OperatorTime[]): OperatorRow[] {
  return operators.map((operator, index) => {
    const time = predicted[index];
    const within = typeof time?.within === "number" ? time.within : null;
    return {
      index,
      kind: operator.kind,
      name: operator.name,
      inside: operator.inside ?? "",
      shape: shapeText(operator.outputs[0]),
      multiplyAdds: times(operator.multiply_adds, operator.turns),
      bytes: moved(operator),
      turns: operator.turns,
      seconds: time === undefined || within !== null ? null : time.seconds,
      share: time === undefined || within !== null ? null : time.share,
      within: within === null ? null : label(operators[within]),
    };
  });
}

/** The largest first, what is not known last; equal ones stay in the graph's order. */
export function sorted(rows: OperatorRow[], by: Column): OperatorRow[] {
  const value = (row: OperatorRow): number => {
    const of = by === "time" ? row.seconds : by === "multiply-adds" ? row.multiplyAdds : row.bytes;
    return of ?? -1;
  };
  if (by === "order") return [...rows].sort((a, b) => a.index - b.index);
  if (by === "kind") return [...rows].sort((a, b) => a.kind.localeCompare(b.kind) || a.index - b.index);
  return [...rows].sort((a, b) => value(b) - value(a) || a.index - b.index);
}

/** The quickest first; devices without an answer last. */
export function ranked(devices: DeviceTime[]): DeviceTime[] {
  const value = (device: DeviceTime): number => device.prediction?.value ?? Number.POSITIVE_INFINITY;
  return [...devices].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return x === y ? a.name.localeCompare(b.name) : x - y;
  });
}

/** A logarithmic scale over whole powers of ten. */
export interface Scale {
  low: number;
  high: number;
}

/** From the power of ten below the least to the one above the largest; null where there is nothing above 0. */
export function scaleOf(values: (number | null | undefined)[]): Scale | null {
  const real = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value) && value > 0);
  if (real.length === 0) return null;
  const low = 10 ** Math.floor(Math.log10(Math.min(...real)) + 1e-9);
  const high = 10 ** Math.ceil(Math.log10(Math.max(...real)) - 1e-9);
  return { low, high: high > low ? high : low * 10 };
}

/** Where a value lies, from 0 to 1; what lies outside is at the edge. */
export function place(value: number, scale: Scale): number {
  if (!(value > 0)) return 0;
  const at = Math.log10(value / scale.low) / Math.log10(scale.high / scale.low);
  return Math.min(1, Math.max(0, at));
}

/** Every power of ten, at most about `most` of them. */
export function ticks(scale: Scale, most = 6): number[] {
  const from = Math.round(Math.log10(scale.low));
  const to = Math.round(Math.log10(scale.high));
  const step = Math.max(1, Math.ceil((to - from) / most));
  const all: number[] = [];
  for (let power = from; power <= to; power += step) all.push(10 ** power);
  return all;
}

const coverage = (prediction: Prediction): string => `${Math.round(prediction.coverage * 100)} of 100`;

/** The prediction in words. */
export function sentence(device: DeviceTime): string {
  const prediction = device.prediction;
  if (prediction === null || prediction === undefined) return `No prediction for ${device.name}: ${device.missing ?? "nothing is known of it"}.`;
  const threads = `${device.threads} ${device.threads === 1 ? "thread" : "threads"}`;
  const range = `between ${seconds(prediction.low)} and ${seconds(prediction.high)}`;
  return `One inference on ${device.name} with ${threads} takes about ${seconds(prediction.value)}, in ${coverage(prediction)} cases ${range}.`;
}

/** Inputs of which a size is open. */
export const openInputs = (graph: GraphTimes["graph"]): GraphValue[] => graph.inputs.filter((input) => input.shape === null || input.shape === undefined || input.shape.includes(null));

/** The open inputs with what is known of their shapes, to be completed: `1x3x?x?`. */
export function begun(graph: GraphTimes["graph"]): Record<string, string> {
  return Object.fromEntries(openInputs(graph).map((input) => [input.name, (input.shape ?? []).map((size) => size ?? "?").join("x")]));
}

/** `1 x 3,224 ×224` as the API takes it, or null where it is no shape. */
export function readShape(text: string): string | null {
  const parts = text.trim().split(/[\sx×,*]+/i).filter((part) => part !== "");
  return parts.length > 0 && parts.every((part) => /^\d{1,12}$/.test(part)) ? parts.join("x") : null;
}

/** Shapes by input as one parameter; those left empty are left out. */
export function shapesQuery(shapes: Record<string, string>): string {
  return Object.entries(shapes)
    .map(([name, text]) => [name, readShape(text)] as const)
    .filter(([, shape]) => shape !== null)
    .map(([name, shape]) => `${name}=${shape}`)
    .join(",");
}

/** Runs that have both a measured and a predicted time. */
export const comparable = (measured: MeasuredGraph[]): MeasuredGraph[] =>
  measured.filter((one) => typeof one.seconds === "number" && one.seconds > 0 && one.prediction !== null && one.prediction !== undefined);

/** How the predictions did, in words. */
export function verdict(measured: MeasuredGraph[]): string {
  const points = comparable(measured);
  if (points.length === 0) return "";
  const inside = points.filter(({ seconds: real, prediction }) => real !== null && real !== undefined && prediction && real >= prediction.low && real <= prediction.high).length;
  const off = points.map(({ seconds: real, prediction }) => Math.abs(Math.log((prediction?.value ?? 1) / (real ?? 1)))).sort((a, b) => a - b);
  const middle = Math.exp(off[Math.floor(off.length / 2)] ?? 0);
  return `${inside} of ${points.length} measured runs lie inside of their interval; the middle prediction is off by a factor of ${threeDigits(middle)}.`;
}

/** Why runs that are there cannot be set beside predictions. */
export function unpredicted(measured: MeasuredGraph[]): string {
  const runs = measured.length === 1 ? "One run" : `${measured.length} runs`;
  const reasons = [...new Set(measured.map((one) => one.missing ?? (typeof one.seconds === "number" ? "" : "no inference was told apart")).filter((reason) => reason !== ""))];
  return `${runs} of this graph ${measured.length === 1 ? "is" : "are"} in the store, but not beside predictions: ${reasons.join("; ") || "nothing could be predicted"}.`;
}

/** A measured run beside its prediction, in words. */
export function pointText(point: MeasuredGraph): string {
  const threads = typeof point.threads === "number" ? `${point.threads} ${point.threads === 1 ? "thread" : "threads"}` : "";
  const shapes = Object.entries(point.shapes ?? {}).map(([name, shape]) => `${name} ${shape.join(" × ")}`);
  const how = [point.runtime ?? "", threads, ...shapes].filter((part) => part !== "").join(", ");
  const where = how === "" ? point.device.name : `${point.device.name} (${how})`;
  const { prediction } = point;
  const told = prediction ? `predicted ${seconds(prediction.value)} (${seconds(prediction.low)} to ${seconds(prediction.high)})` : "not predicted";
  return `${where}: measured ${seconds(point.seconds ?? Number.NaN)}, ${told}`;
}

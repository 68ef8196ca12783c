// What a comparison says, in words. Every metric here is a cost, so more is worse.

import type { ChangeVerdict, ComparedMetric, ComparedSide, Comparison } from "./api/records";
import { labelOf } from "./figures";
import { change, ratio, shortId } from "./quantity";

export const WORDS: Record<ChangeVerdict, { text: string; tone: "good" | "bad" | "plain" }> = {
  increase: { text: "increase", tone: "bad" },
  decrease: { text: "decrease", tone: "good" },
  "no-difference-shown": { text: "no difference shown", tone: "plain" },
  "too-few-runs": { text: "too few runs", tone: "plain" },
  "not-comparable": { text: "not comparable", tone: "plain" },
};

const isCalled = (metric: ComparedMetric): boolean => metric.verdict === "increase" || metric.verdict === "decrease";

function phrase(metric: ComparedMetric): string {
  return `${labelOf(metric.field)} ${change(metric.change_ratio ?? 0)}`;
}

/** One plain sentence: what differs between B and A, and what does not. */
export function conclusion(comparison: Comparison): string {
  const { metrics } = comparison;
  const called = metrics.filter((metric) => isCalled(metric) && typeof metric.change_ratio === "number");
  if (metrics.length > 0 && metrics.every((metric) => metric.verdict === "too-few-runs" || metric.verdict === "not-comparable")) {
    return "There are too few runs to call any difference; measure again with --repeat 10.";
  }
  if (called.length === 0) return "No difference between B and A is shown by these runs.";
  const more = called.filter((metric) => metric.verdict === "increase").map(phrase);
  const less = called.filter((metric) => metric.verdict === "decrease").map(phrase);
  const parts = [more.length > 0 ? `needs more than A: ${more.join(", ")}` : "", less.length > 0 ? `needs less than A: ${less.join(", ")}` : ""];
  return `B ${parts.filter((part) => part !== "").join("; and ")}.`;
}

/** The runs that do not count, each with its reason. */
export const leftOut = (side: ComparedSide): string[] => (side.left_out ?? []).map(({ run, because }) => `${shortId(run)}: ${because}`);

/** Half the width of the drawn scale, so that every interval is in view but a wild one does not flatten the rest. */
export function scaleOf(metrics: ComparedMetric[]): number {
  const ends = metrics.flatMap((m) => [m.low, m.high, m.change_ratio]).filter((x): x is number => typeof x === "number").map(Math.abs);
  return Math.min(1, Math.max(0.02, ...ends) * 1.1);
}

export function intervalText(metric: ComparedMetric): string {
  if (typeof metric.low !== "number" || typeof metric.high !== "number") return "";
  const coverage = typeof metric.coverage === "number" ? ` (${ratio(metric.coverage).replace(/\.0+ /, " ")} interval)` : "";
  return `${change(metric.low)} to ${change(metric.high)}${coverage}`;
}

// One plain sentence about a run that has no verdict in its record: one under way, or interrupted. Only what the
// record says; where it does not say, the sentence does not either.

import type { Exit, Maybe, Run, RunState } from "./api/records";
import { bytes, cores, count, seconds } from "./quantity";

const SIGNALS: Record<number, string> = {
  1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
  11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ", 31: "SYS",
};

export const signalName = (signal: number): string => {
  const name = SIGNALS[signal];
  return name === undefined ? `signal ${signal}` : `signal ${signal} (${name})`;
};

export type Tone = "good" | "bad" | "warn" | "live" | "plain";

/** The ending as a short word with its tone, for lists and badges. */
export function ending(state: RunState, exit: Maybe<Exit>): { word: string; tone: Tone } {
  if (state === "running") return { word: "running", tone: "live" };
  if (!exit) return state === "interrupted" ? { word: "interrupted", tone: "warn" } : { word: "ended", tone: "plain" };
  switch (exit.cause) {
    case "exited":
      return exit.code === 0 ? { word: "ok", tone: "good" } : { word: `exit ${exit.code ?? "?"}`, tone: "bad" };
    case "signalled":
      return { word: typeof exit.signal === "number" ? (SIGNALS[exit.signal] ?? `signal ${exit.signal}`) : "signal", tone: "bad" };
    case "timeout":
      return exit.planned ? { word: "ok, as planned", tone: "good" } : { word: "timeout", tone: "bad" };
    case "oom":
      return { word: "out of memory", tone: "bad" };
    case "interrupted":
      return { word: "stopped", tone: "warn" };
    case "lost":
      return { word: "lost", tone: "warn" };
    case "unstarted":
      return { word: "never started", tone: "bad" };
    default:
      return { word: String(exit.cause), tone: "plain" };
  }
}

function howItEnded(run: Run): string {
  const exit = run.exit;
  if (run.state === "running") return "Still running";
  if (!exit) return run.state === "interrupted" ? "Not measured to its end: the measuring program went away" : "Ended";
  const by = exit.ended_by ? ` by ${exit.ended_by}` : "";
  switch (exit.cause) {
    case "exited":
      return exit.code === 0 ? "Ended well" : `Failed with exit code ${exit.code ?? "unknown"}`;
    case "signalled":
      return `Ended by ${typeof exit.signal === "number" ? signalName(exit.signal) : "a signal"}${by === "" ? "" : `, sent${by}`}`;
    case "timeout": {
      if (exit.planned) return "Ran for as long as it was to";
      const limit = run.context.timeout_seconds;
      return `Stopped at its time limit${typeof limit === "number" ? ` of ${seconds(limit)}` : ""}`;
    }
    case "oom":
      return "Killed by the kernel for want of memory";
    case "interrupted":
      return `Stopped on request${by}`;
    case "unstarted":
      return typeof exit.detail === "string" ? `Never started: ${exit.detail}` : "Never started";
    case "lost":
      return "Its end was not seen: the measuring program was gone before it";
    default:
      return `Ended (${String(exit.cause)})`;
  }
}

/** Whether a run that is over was measured to its end; one that never started has nothing that could be trusted. */
export const isMeasured = (run: Run): boolean => run.state === "finished" && run.exit?.cause !== "unstarted" && typeof run.summary.wall_seconds === "number";

/** Wall time so far or in all; for a run under way it is counted from its start. */
export function wallSeconds(run: Run, now: number): number | null {
  const wall = run.summary.wall_seconds;
  if (typeof wall === "number") return wall;
  const start = Date.parse(run.started);
  const end = run.state === "running" ? now : run.ended ? Date.parse(run.ended) : Number.NaN;
  return Number.isFinite(end - start) ? Math.max(0, (end - start) / 1000) : null;
}

/** To the end of its last process: what the main one leaves behind works on after it. */
function lifeSeconds(run: Run, wall: number): number {
  return wall + (run.exit?.settled_seconds ?? 0);
}

export function sentence(run: Run, threads: number | null, now: number): string {
  const { cpu_seconds: cpu, peak_memory_bytes: memory, processes } = run.summary;
  const wall = wallSeconds(run, now);
  let text = howItEnded(run);
  if (wall !== null) text += run.state === "running" ? ` after ${seconds(wall)}` : ` after ${seconds(wall)}`;
  const used: string[] = [];
  if (typeof cpu === "number") {
    const busy = wall !== null && wall > 0 ? cpu / lifeSeconds(run, wall) : null;
    const of = threads === null ? "" : ` of ${threads}`;
    used.push(`${seconds(cpu)} of CPU${busy === null ? "" : ` (${of === "" ? cores(busy) : `${cores(busy).replace(/ cores?$/, "")}${of} cores`} on average)`}`);
  }
  if (typeof memory === "number") used.push(`at most ${bytes(memory)} of memory`);
  if (used.length > 0) text += `; ${run.state === "running" ? "so far it used" : "it used"} ${used.join(" and ")}`;
  if (used.length > 0 && typeof processes === "number" && processes > 1) text += `, in ${count(processes)} processes`;
  const left = run.exit?.left_behind ?? 0;
  if (left > 0) text += `; it left ${left} ${left === 1 ? "process" : "processes"} behind`;
  return `${text}.`;
}

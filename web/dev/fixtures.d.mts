// Types of the made-up runs, as far as tests use them.
import type { Comparison, ProcessTree, Run, RunRow, Series } from "../src/api/records";

export type MadeRun = Run & { shape: string; manyProcesses?: number };
export function makeRuns(now: number, seed?: number): MadeRun[];
export function makeProcesses(run: MadeRun | undefined): ProcessTree;
export function makeSeries(run: MadeRun, until?: number): Series[];
export function makeComparison(a: MadeRun[], b: MadeRun[]): Comparison;
export function rowOf(run: MadeRun): RunRow;

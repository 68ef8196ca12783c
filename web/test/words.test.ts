import assert from "node:assert/strict";
import { test } from "node:test";
import { makeComparison, makeRuns, makeSeries, rowOf, type MadeRun } from "../dev/fixtures.mjs";
import type { Run, RunRow } from "../src/api/records";
import { axisTime, trimmed } from "../src/axis";
import { group, median, medianOf } from "../src/batches";
import { conclusion, leftOut } from "../src/changes";
import { detailFigures, figure, splitMissing, summaryFigures } from "../src/figures";
import { soFar } from "../src/live";
import { ending, isMeasured, sentence } from "../src/verdict";

const NOW = Date.UTC(2026, 0, 10);
const runs = makeRuns(NOW);
const base = runs.find((run) => run.workload.name === "tokenise" && run.state === "finished") as MadeRun;
const like = (change: Partial<Run>): Run => ({ ...base, ...change });

test("the verdict says how it ended, how long, and what it used", () => {
  const run = like({ exit: { code: 0, cause: "exited" }, summary: { wall_seconds: 2, cpu_seconds: 3, peak_memory_bytes: 1048576, processes: 4 } });
  assert.equal(sentence(run, 8, NOW), "Ended well after 2.00 s; it used 3.00 s of CPU (1.50 of 8 cores on average) and at most 1.00 MiB of memory, in 4 processes.");
  assert.equal(sentence(run, null, NOW), "Ended well after 2.00 s; it used 3.00 s of CPU (1.50 cores on average) and at most 1.00 MiB of memory, in 4 processes.");
  const daemon = like({ exit: { code: 0, cause: "exited", left_behind: 1, settled_seconds: 2 }, summary: { wall_seconds: 0.002, cpu_seconds: 2 } });
  assert.ok(sentence(daemon, null, NOW).includes("(1.00 core"), "cores are of all of its life, not of the main process alone");
});

test("what was not measured is not said", () => {
  const run = like({ exit: { code: 3, cause: "exited" }, summary: { wall_seconds: 2 } });
  assert.equal(sentence(run, 8, NOW), "Failed with exit code 3 after 2.00 s.");
});

test("each way to end has its words", () => {
  const say = (run: Partial<Run>): string => sentence(like({ summary: { wall_seconds: 1 }, ...run }), null, NOW);
  assert.match(say({ exit: { cause: "signalled", signal: 11 } }), /^Ended by signal 11 \(SEGV\) after 1.00 s/);
  assert.match(say({ exit: { cause: "timeout", signal: 9 }, context: { ...base.context, timeout_seconds: 10 } }), /time limit of 10\.0 s/);
  assert.match(say({ exit: { cause: "oom", signal: 9 } }), /want of memory/);
  assert.match(say({ exit: { cause: "exited", code: 0, left_behind: 1 } }), /left 1 process behind/);
  assert.match(say({ state: "interrupted", exit: null }), /Not measured to its end/);
  assert.match(say({ state: "running", exit: null, summary: {}, started: new Date(NOW - 5000).toISOString() }), /^Still running after 5.00 s/);
});

test("a run under way shows what samples have seen so far, and says that they were samples", () => {
  const run = runs.find((one) => one.state === "running") as MadeRun;
  const series = makeSeries(run, 8);
  const now = Date.parse(run.started) + 8000;
  const known = soFar(run, series, now);
  const use = series.find((one) => one.name === "use");
  const cpu = use?.columns.find((one) => one.name === "cpu")?.values as { integer: number[] };
  assert.equal(known.summary.cpu_seconds, (cpu.integer.at(-1) as number) / 1e9);
  assert.equal(known.quality?.["summary.peak_memory_bytes"], "sampled");
  assert.equal(known.summary.energy_joules, undefined);
  assert.match(sentence(known, 8, now), /^Still running after 8\.00 s; so far it used .* of CPU/);
  assert.equal(soFar(base, series, now), base);
});

test("nothing is said for a run that was not measured", () => {
  assert.ok(isMeasured(like({})));
  assert.ok(!isMeasured(like({ exit: { cause: "unstarted" }, summary: {} })));
  assert.ok(!isMeasured(like({ state: "interrupted", exit: null, summary: {} })));
});

test("endings have a word and a tone", () => {
  assert.deepEqual(ending("finished", { code: 0, cause: "exited" }), { word: "ok", tone: "good" });
  assert.deepEqual(ending("finished", { code: 2, cause: "exited" }), { word: "exit 2", tone: "bad" });
  assert.deepEqual(ending("running", null), { word: "running", tone: "live" });
});

test("a missing value says why and what to do", () => {
  assert.deepEqual(splitMissing("no right; fix: run as root; fix: or not"), { reason: "no right", fix: "run as root; fix: or not" });
  assert.deepEqual(splitMissing("no sensor"), { reason: "no sensor", fix: null });
  const run = like({ summary: { wall_seconds: 1 }, missing: { "summary.energy_joules": "no meter; fix: get one", network: "shared" } });
  const energy = summaryFigures(run).find((one) => one.path === "summary.energy_joules");
  assert.deepEqual(energy?.missing, { reason: "no meter", fix: "get one" });
  assert.equal(energy?.value, null);
  assert.equal(figure(run, "network.sent_bytes", "Sent").missing?.reason, "shared", "a reason for the whole holds for its parts");
});

test("quality of a part comes from the nearest path", () => {
  const run = like({ quality: { memory: "sampled", "memory.minor_faults": "exact" }, memory: { minor_faults: 3, peak_file_bytes: 4 }, pressure: {} });
  const memory = detailFigures(run).find((one) => one.title === "Memory")?.figures ?? [];
  assert.deepEqual(memory.map((one) => [one.path, one.quality]), [["memory.peak_file_bytes", "sampled"], ["memory.minor_faults", "exact"]]);
});

test("neighbouring runs of a batch are one group and nothing is lost or moved", () => {
  const rows = runs.map(rowOf);
  const groups = group(rows);
  assert.deepEqual(groups.flatMap((item) => (item.kind === "run" ? [item.run.id] : item.runs.map((run) => run.id))), rows.map((row) => row.id));
  assert.ok(groups.some((item) => item.kind === "batch" && item.runs.length === 11));
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1]), 2.5);
  assert.equal(median([]), null);
  const [first] = rows;
  const row = (counted: boolean, wall: number): RunRow => ({ ...(first as RunRow), counted, summary: { wall_seconds: wall } });
  assert.equal(medianOf([row(false, 9), row(true, 2), row(true, 4)], "wall_seconds"), 3, "warm-ups, failures and interrupted runs do not count");
  assert.equal(medianOf([row(false, 9)], "wall_seconds"), null, "a batch without a run that counts has no median");
});

test("a comparison is told in one sentence", () => {
  const batches = [...new Set(runs.filter((run) => run.workload.name === "resnet50-infer" && run.context.repetitions > 1).map((run) => run.batch))];
  const side = (batch: string | undefined): MadeRun[] => runs.filter((run) => run.batch === batch);
  const same = makeComparison(side(batches[0]), side(batches[0]));
  assert.equal(conclusion(same), "No difference between B and A is shown by these runs.");
  assert.ok(leftOut(same.a).some((text) => text.endsWith(": warm-up")));
  const faster = { ...same, metrics: same.metrics.map((m) => (m.field === "wall_seconds" ? { ...m, verdict: "decrease" as const, change_ratio: -0.1 } : m)) };
  assert.equal(conclusion(faster), "B needs less than A: Wall time −10.0 %.");
  assert.match(conclusion(makeComparison(side(batches[0]).slice(0, 1), side(batches[0]).slice(0, 1))), /too few runs/);
});

test("axis ticks have the digits that their step needs", () => {
  assert.equal(axisTime(0.25, 0.05), "250 ms");
  assert.equal(axisTime(12.5, 0.5), "12.5 s");
  assert.equal(axisTime(30, 10), "30 s");
  assert.equal(axisTime(90, 30), "1:30");
  assert.equal(axisTime(3720, 60), "1:02:00");
  assert.equal(axisTime(0.0015, 0.0005), "1.5 ms");
  assert.equal(trimmed("1.50 cores"), "1.5");
  assert.equal(trimmed("2.00 GiB"), "2 GiB");
  assert.equal(trimmed("100 MiB/s"), "100 MiB/s");
});

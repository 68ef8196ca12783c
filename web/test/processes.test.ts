import assert from "node:assert/strict";
import { test } from "node:test";
import { makeProcesses, makeRuns } from "../dev/fixtures.mjs";
import type { Process } from "../src/api/records";
import { buildTree, closedAtFirst, visibleRows, type Node } from "../src/processes";

const process = (pid: number, parent: number | null, cpu: number | null = 1, memory: number | null = 10): Process => ({ pid, parent, name: `p${pid}`, started_seconds: pid, cpu_seconds: cpu, peak_resident_bytes: memory });
const pids = (rows: Node[]): number[] => rows.map((row) => row.process.pid);

test("children hang under who started them, and totals count all below", () => {
  const roots = buildTree([process(1, null), process(2, 1, 5), process(3, 2, 7, 99), process(4, 1, null)]);
  assert.equal(roots.length, 1);
  assert.equal(roots[0]?.size, 4);
  assert.equal(roots[0]?.cpuTotal, 13);
  assert.equal(roots[0]?.memoryMost, 99);
  assert.deepEqual(visibleRows(roots, "start", new Set()).map((row) => row.depth), [0, 1, 2, 1]);
});

test("a process whose parent was not seen is a root; one that names itself too", () => {
  assert.deepEqual(pids(buildTree([process(5, 99), process(6, 6), process(7, null)])), [5, 6, 7]);
});

test("a pid that comes back: the child belongs to the latest before it", () => {
  const roots = buildTree([process(1, null), process(2, 1), process(3, 1), process(2, 3), process(9, 2)]);
  const nine = visibleRows(roots, "start", new Set()).find((row) => row.process.pid === 9);
  assert.equal(nine?.parent?.index, 3);
});

test("siblings are ordered by what they and theirs used; closed rows hide what is below", () => {
  const roots = buildTree([process(1, null), process(2, 1, 1, 50), process(3, 1, 2, 5), process(4, 2, 10, 1)]);
  assert.deepEqual(pids(visibleRows(roots, "start", new Set())), [1, 2, 4, 3]);
  assert.deepEqual(pids(visibleRows(roots, "cpu", new Set())), [1, 2, 4, 3]);
  assert.deepEqual(pids(visibleRows(roots, "memory", new Set([1]))), [1, 2, 3]);
});

test("absent figures sort last and never count as zero use in totals", () => {
  const roots = buildTree([process(1, null, null), process(2, 1, null), process(3, 1, 0)]);
  assert.equal(roots[0]?.cpuTotal, 0);
  assert.deepEqual(pids(visibleRows(roots, "cpu", new Set())), [1, 3, 2]);
  assert.equal(buildTree([process(1, null, null)])[0]?.cpuTotal, null);
});

test("10,000 processes, and a chain as deep, are built without recursion", () => {
  const run = makeRuns(Date.UTC(2026, 0, 1)).find((one: { manyProcesses?: number }) => one.manyProcesses === 10_000);
  const roots = buildTree(makeProcesses(run).processes);
  assert.equal(visibleRows(roots, "cpu", new Set()).length, 10_000);
  assert.ok(visibleRows(roots, "start", closedAtFirst(roots)).length < 10_000);
  const chain = buildTree(Array.from({ length: 10_000 }, (_, i) => process(i + 1, i === 0 ? null : i)));
  assert.equal(visibleRows(chain, "memory", new Set()).length, 10_000);
});

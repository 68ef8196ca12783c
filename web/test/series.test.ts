import assert from "node:assert/strict";
import { test } from "node:test";
import type { Column, Series } from "../src/api/records";
import { overlay } from "../src/overlay";
import { panels } from "../src/panels";
import { gauge, join, lowerBound, numbers, rates, stack, valueAt } from "../src/series";

const counter = (values: number[], absent?: number[]): Column => ({ name: "cpu", kind: "counter", unit: "nanoseconds", values: { integer: values }, ...(absent ? { absent } : {}) });

test("a rate is the change over the time since the last reading", () => {
  assert.deepEqual(rates([0, 1, 3], [0, 5, 6]), [undefined, 5, 0.5]);
});

test("absent rows do not break a rate: the next reading covers the whole gap", () => {
  const values = numbers(counter([0, 999, -7, 6], [1, 2]));
  assert.deepEqual(values, [0, null, null, 6]);
  assert.deepEqual(rates([0, 1, 2, 3], values), [undefined, undefined, undefined, 2]);
});

test("absent rows at either end leave nothing there", () => {
  assert.deepEqual(rates([0, 1, 2, 3], [null, 1, 3, null]), [undefined, undefined, 2, undefined]);
});

test("a counter that goes back leaves a gap, not a negative rate", () => {
  assert.deepEqual(rates([0, 1, 2, 3], [5, 9, 1, 2]), [undefined, 4, null, 1]);
});

test("equal times give no rate", () => {
  assert.deepEqual(rates([0, 0, 1], [0, 3, 4]), [undefined, undefined, 4]);
});

test("readings closer than the gap are joined, and no use is lost", () => {
  const times = [0, 0.4, 0.8, 1.2, 1.6, 2.0];
  const values = [0, 1, 2, 3, 4, 5];
  const joined = rates(times, values, 1);
  assert.equal(joined[3], 2.5);
  assert.equal(joined.filter((rate) => rate !== undefined).length, 1);
  assert.deepEqual(rates([0, 0.1], [0, 2], 1), [undefined, 20], "a single short interval is still shown");
});

test("joined rates add up to the counter over random data", () => {
  let state = 1;
  const random = (): number => (state = (state * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 50; round++) {
    const times = [0];
    const values: (number | null)[] = [0];
    for (let i = 1; i < 200; i++) {
      times.push((times[i - 1] as number) + random());
      values.push(random() < 0.2 ? null : (values.reduce((most: number, v) => Math.max(most, v ?? 0), 0) + random()));
    }
    const drawn = rates(times, values, 2);
    let last = 0;
    let sum = 0;
    drawn.forEach((rate, i) => {
      if (typeof rate !== "number") return;
      sum += rate * ((times[i] as number) - last);
      last = times[i] as number;
    });
    const counted = values[times.indexOf(last)] as number;
    assert.ok(Math.abs(sum - counted) < 1e-9 * counted, `${sum} ${counted}`);
  }
});

test("values that are not finite are gaps", () => {
  assert.deepEqual(numbers({ name: "x", kind: "gauge", unit: "count", values: { float: [1, null, 2] } }), [1, null, 2]);
});

test("a gauge that is read less often than others is one line; missing readings are a gap in it", () => {
  const every = (n: number, step: number): (number | null)[] => Array.from({ length: n }, (_, i) => (i % step === 0 ? i : null));
  const times = Array.from({ length: 40 }, (_, i) => i);
  assert.ok(gauge(times, every(40, 5)).every((value) => value !== null), "no gaps between regular readings");
  const holed = every(40, 5);
  for (let i = 11; i < 30; i++) holed[i] = null;
  const drawn = gauge(times, holed);
  assert.equal(drawn[20], null);
  assert.equal(drawn[7], undefined);
  assert.deepEqual(gauge([0, 1, 2], [null, 4, null]), [undefined, 4, undefined]);
  assert.deepEqual(gauge([0, 1, 2, 3, 9, 10, 11], [1, 1, 1, null, null, 1, 1]), [1, 1, 1, null, null, 1, 1]);
});

test("stacked parts are sums, and a missing part ends the stack there", () => {
  assert.deepEqual(stack([[1, 2, null], [10, null, 5]]), [[1, 2, null], [11, null, null]]);
});

test("the read-out takes the interval of a rate and the nearest sample of a gauge", () => {
  const times = [0, 1, 2, 3];
  assert.equal(lowerBound(times, 1.5), 2);
  assert.equal(valueAt(times, [undefined, 10, undefined, 30], true, 1.2), 30);
  assert.equal(valueAt(times, [undefined, 10, undefined, 30], true, 0.5), 10);
  assert.equal(valueAt(times, [undefined, 10, undefined, 30], true, 3.5), null);
  assert.equal(valueAt(times, [1, 2, 3, 4], false, 1.2), 2);
  assert.equal(valueAt(times, [1, 2, null, 4], false, 2.1), null);
  assert.equal(valueAt(times, [1, 2, 3, 4], false, 99), 4);
  assert.equal(valueAt([], [], false, 1), null);
});

test("joined time columns keep every value at its time", () => {
  const { times, columns } = join([
    { times: [0, 2, 4], columns: [[1, 2, 3]] },
    { times: [1, 2, 3], columns: [[10, null, 30]] },
  ]);
  assert.deepEqual([...times], [0, 1, 2, 3, 4]);
  assert.deepEqual(columns, [
    [1, undefined, 2, undefined, 3],
    [undefined, 10, null, 30, undefined],
  ]);
});

const use = (n: number): Series => ({
  name: "use",
  times: Array.from({ length: n }, (_, i) => i * 1e7),
  columns: [
    counter(Array.from({ length: n }, (_, i) => i * 2e7)),
    { name: "memory", kind: "gauge", unit: "bytes", values: { integer: new Array(n).fill(300) } },
    { name: "anonymous", kind: "gauge", unit: "bytes", values: { integer: new Array(n).fill(200) } },
    { name: "file", kind: "gauge", unit: "bytes", values: { integer: new Array(n).fill(90) } },
    { name: "kernel", kind: "gauge", unit: "bytes", values: { integer: new Array(n).fill(0) }, absent: Array.from({ length: n }, (_, i) => i) },
    { name: "teapots", kind: "gauge", unit: "count", values: { integer: new Array(n).fill(3) } },
  ],
});

test("nanoseconds of CPU per second are cores, and parts of memory are stacked under the total", () => {
  const all = panels([use(100)], 0);
  assert.deepEqual(all.map((panel) => panel.key), ["cpu", "memory", "use-count-gauge"]);
  const cpu = all[0]?.lines[0];
  assert.ok(cpu?.values.slice(1).every((value) => Math.abs((value as number) - 2) < 1e-9));
  assert.deepEqual(all[1]?.lines.map((line) => [line.label, line.values[5], (line.drawn ?? line.values)[5]]), [
    ["page cache", 90, 290],
    ["anonymous", 200, 200],
    ["total", 300, 300],
  ]);
  assert.equal(all[2]?.lines[0]?.label, "teapots", "a column that this page does not know is still shown");
});

test("the record's peak of busy cores is what is read out, and nothing is drawn above it", () => {
  const spiky = use(4);
  spiky.columns[0] = counter([0, 1e7, 2e7, 9e7]);
  const line = panels([spiky], 0, 1.25)[0]?.lines[0];
  assert.equal(line?.peak, 1.25);
  assert.ok(line?.values.every((value) => typeof value !== "number" || value <= 1.25));
  assert.equal(overlay([{ id: "1-1", side: "a", series: [spiky], peakCores: 1.25 }], 0)[0]?.lines[0]?.peak, 1.25);
});

test("120,000 samples are prepared without fuss", () => {
  const [cpu] = panels([use(120_000)], 1200 / 1500);
  const drawn = (cpu?.lines[0]?.values ?? []).filter((value) => typeof value === "number").length;
  assert.ok(drawn > 1000 && drawn <= 1502, `${drawn} steps`);
});

test("an overlay has one line for each run in its side's colour", () => {
  const [cpu] = overlay([{ id: "1-1", side: "a", series: [use(10)] }, { id: "2-2", side: "b", series: [use(20)] }, { id: "3", side: "b", series: [] }], 0);
  assert.deepEqual(cpu?.lines.map((line) => line.colour), ["--side-a", "--side-b"]);
  assert.equal(cpu?.times.length, 20);
});

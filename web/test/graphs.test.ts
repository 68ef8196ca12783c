import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeviceTime, GraphOperator, MeasuredGraph, Prediction } from "../src/api/records";
import { format, parse } from "../src/address";
import { begun, comparable, openInputs, operatorRows, place, pointText, ranked, readShape, scaleOf, sentence, shapesQuery, shapeText, sorted, ticks, unpredicted, verdict } from "../src/graphs";

const prediction = (value: number, low = value / 2, high = value * 2): Prediction => ({ value, unit: "seconds", low, high, coverage: 0.9, predictor: "sha256:0", in_range: true, because: "x" });
const device = (id: string, value: number | null): DeviceTime => ({ id, name: id.toUpperCase(), origin: "specified", threads: 4, prediction: value === null ? null : prediction(value), missing: value === null ? "no shapes" : null });
const operator = (kind: string, adds: number | null, some: Partial<GraphOperator> = {}): GraphOperator => ({ name: "", kind, outputs: [{ name: "y", shape: [1, 8] }], multiply_adds: adds, read_bytes: 10, written_bytes: 5, turns: 1, ...some });

test("operators have their time, or who does them in passing, and all turns count", () => {
  const rows = operatorRows(
    [operator("Conv", 100, { name: "first" }), operator("Relu", 0), operator("Loop", 7, { turns: 3 }), operator("Odd", null, { read_bytes: null })],
    [{ seconds: 2, share: 0.8 }, { seconds: 0, share: 0, within: 0 }, { seconds: 0.5, share: 0.2 }],
  );
  assert.deepEqual(rows.map((row) => row.seconds), [2, null, 0.5, null]);
  assert.equal(rows[1]?.within, "Conv first");
  assert.equal(rows[2]?.multiplyAdds, 21);
  assert.equal(rows[2]?.bytes, 45);
  assert.equal(rows[3]?.bytes, null);
  assert.deepEqual(sorted(rows, "time").map((row) => row.index), [0, 2, 1, 3]);
  assert.deepEqual(sorted(rows, "multiply-adds").map((row) => row.index), [0, 2, 1, 3]);
  assert.deepEqual(sorted(rows, "bytes").map((row) => row.index), [2, 0, 1, 3]);
  assert.deepEqual(sorted(rows, "kind").map((row) => row.kind), ["Conv", "Loop", "Odd", "Relu"]);
  assert.deepEqual(sorted(sorted(rows, "bytes"), "order").map((row) => row.index), [0, 1, 2, 3]);
});

test("the quickest device is first and one without an answer last", () => {
  const devices = [device("c", null), device("b", 2), device("a", 0.5), device("d", null)];
  assert.deepEqual(ranked(devices).map((one) => one.id), ["a", "b", "c", "d"]);
  assert.equal(sentence(device("b", 0.25)), "One inference on B with 4 threads takes about 250 ms, in 90 of 100 cases between 125 ms and 500 ms.");
  assert.equal(sentence(device("c", null)), "No prediction for C: no shapes.");
});

test("scales go over whole powers of ten and nothing falls outside", () => {
  assert.equal(scaleOf([null, 0, -1, Number.NaN, undefined]), null);
  const scale = scaleOf([0.003, 0.4]);
  assert.ok(scale !== null);
  assert.ok(Math.abs(scale.low / 0.001 - 1) < 1e-9 && Math.abs(scale.high - 1) < 1e-9);
  assert.ok(Math.abs(place(0.01, scale) - 1 / 3) < 1e-9);
  assert.equal(place(0, scale), 0);
  assert.equal(place(1e9, scale), 1);
  assert.equal(ticks(scale).length, 4);
  const one = scaleOf([1]);
  assert.ok(one !== null && one.high > one.low, "one value has a scale too");
  assert.ok(ticks({ low: 1e-9, high: 1e9 }).length <= 8);
});

test("shapes are read as people write them", () => {
  assert.equal(readShape(" 1 x 3×224, 224 "), "1x3x224x224");
  for (const text of ["", "x", "1x-2", "1.5", "a", "9".repeat(13)]) assert.equal(readShape(text), null, text);
  assert.equal(shapesQuery({ x: "1x8", y: "", z: "odd" }), "x=1x8");
  assert.equal(shapeText({ name: "x", shape: [1, null] }), "1 × ?");
  assert.equal(shapeText({ name: "x", shape: null }), "?");
  assert.equal(shapeText({ name: "x", shape: [] }), "one number");
  const graph = { inputs: [{ name: "a", shape: [1] }, { name: "b", shape: [null, 2] }, { name: "c" }] };
  assert.deepEqual(openInputs(graph as never).map((input) => input.name), ["b", "c"]);
  assert.deepEqual(begun(graph as never), { b: "?x2", c: "" });
});

test("only what was measured and predicted is compared", () => {
  const run = (seconds: number | null, predicted: Prediction | null): MeasuredGraph => ({ run: String(seconds), device: { id: "d", name: "d" }, started: "", seconds, prediction: predicted });
  const all = [run(1, prediction(1.1)), run(1, prediction(4)), run(null, prediction(1)), run(1, null), run(0, prediction(1))];
  assert.equal(comparable(all).length, 2);
  assert.equal(verdict(all), "1 of 2 measured runs lie inside of their interval; the middle prediction is off by a factor of 4.00.");
  assert.equal(verdict([]), "");
});

test("runs without a prediction say why, and a point says what it is of", () => {
  const run = (some: Partial<MeasuredGraph>): MeasuredGraph => ({ run: "r", device: { id: "d", name: "Board" }, started: "2026-01-01T00:00:00Z", seconds: 0.02, ...some });
  assert.equal(unpredicted([run({ missing: "no passport" })]), "One run of this graph is in the store, but not beside predictions: no passport.");
  assert.equal(unpredicted([run({ missing: "no passport" }), run({ missing: "no passport" }), run({ seconds: null })]), "3 runs of this graph are in the store, but not beside predictions: no passport; no inference was told apart.");
  assert.equal(pointText(run({ prediction: prediction(0.03), threads: 2, runtime: "rten", shapes: { x: [1, 3] } })), "Board (rten, 2 threads, x 1 × 3): measured 20.0 ms, predicted 30.0 ms (15.0 ms to 60.0 ms)");
});

test("the address of the page reads back", () => {
  assert.deepEqual(parse("#/graphs"), { page: "graphs" });
  assert.equal(format({ page: "graphs" }), "#/graphs");
  assert.equal(parse("#/graphs/x").page, "unknown");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodePower, PowerPredictor } from "../src/api/records";
import { against, alike, byMachine, consumerRows, cutAt, errorText, idleText, latest, machineText, missingRows, overTime, stacked, telling, trainerText, verdict } from "../src/power";

const power = (some: Partial<NodePower> = {}): NodePower => ({
  interval_seconds: 5,
  machine: { processor: "intel_xeon_gold_6230", cores: 4 },
  covers: "platform",
  meters: [],
  predictor: null,
  idle_from: "predictor",
  compared: null,
  since: "2026-01-01T12:00:00Z",
  times: [0, 5],
  busy_cores: [1, 2],
  measured: [null, null],
  estimated: [30, 40],
  low: [10, 15],
  high: [50, 60],
  idle: [20, 20],
  consumers: [
    { name: "worker", owner: { kind: "container", id: "a".repeat(64) }, processes: 3, mean_watts: 10, watts: [6, 14] },
    { name: "helper", owner: null, processes: 1, mean_watts: 1.5, watts: [3, null] },
  ],
  others: [1, 4],
  unseen: [0, 2],
  missing: { measured: "this host shows no energy meter" },
  ...some,
});

test("a node without a meter is estimated with its interval, and the reason is told", () => {
  assert.equal(verdict(power()), "This node takes about 40.0 W now, estimated, in 90 of 100 cases between 15.0 W and 60.0 W.");
  assert.equal(against(power()), "No meter: this host shows no energy meter. All figures are estimated.");
  assert.equal(idleText(power()), "20.0 W of it is idling: as the predictor says.");
});

test("a measured node says so, what the estimate is, and how far that was off", () => {
  const metered = power({
    covers: "package-and-memory",
    meters: ["rapl:package-0"],
    measured: [31, 44],
    missing: {},
    idle_from: "meter-fitted",
    compared: { entries: 2, mae_watts: 2.5, mape_ratio: 0.0625, bias_watts: -2.5, inside_ratio: 1 },
  });
  assert.equal(verdict(metered), "Processor and memory of this node take 44.0 W now, measured. The estimate says 40.0 W, in 90 of 100 cases between 15.0 W and 60.0 W.");
  assert.equal(against(metered), "Over 10.0 s the estimate is off by 2.50 W (6.25 %) on average, mostly too low. 100 % of the measured values lie inside of their interval.");
  assert.equal(against({ ...metered, compared: { entries: 2, mae_watts: 2, bias_watts: 0.1, mape_ratio: null } }), "Over 10.0 s the estimate is off by 2.00 W on average, to either side.");
});

test("a node of which nothing is known is not taken for one that takes nothing", () => {
  const nothing = power({ estimated: [null, null], low: [null, null], high: [null, null], idle: [null, null], missing: { estimated: "no /proc/stat" } });
  assert.equal(verdict(nothing), "Nobody can say what this node takes: no /proc/stat.");
  assert.equal(idleText(nothing), "");
  assert.deepEqual(overTime(nothing).lines, []);
  assert.ok(stacked(nothing).lines.every((line) => line.values.every((value) => value === null)));
  assert.equal(verdict(power({ times: [] })), "The first look at this node is under way.");
  assert.equal(latest([1, null, 3, null]), 3);
  assert.equal(latest([null]), null);
});

test("the chart has measured, estimated with its band, and idling; an interval beyond the picture is cut", () => {
  const panel = overTime(power({ measured: [31, null] }));
  assert.deepEqual(panel.lines.map((line) => line.label), ["interval, upper end", "interval, lower end", "idling", "estimated", "measured"]);
  assert.deepEqual(panel.bands, [[0, 1]]);
  assert.equal(panel.times[1] ?? 0, Date.UTC(2026, 0, 1, 12) / 1000 + 5);
  assert.equal(cutAt(power()), null);
  const wide = power({ high: [900, 1000] });
  assert.equal(cutAt(wide), 100);
  assert.deepEqual(overTime(wide).lines[0]?.drawn, [100, 100]);
  assert.deepEqual(overTime(wide).lines[0]?.values, [900, 1000], "the read-out tells the truth");
  assert.deepEqual(overTime(power({ low: [null, null] })).bands, []);
});

test("the stack ends at what the node takes", () => {
  const panel = stacked(power());
  assert.deepEqual(panel.lines[0]?.drawn, [30, 40]);
  assert.equal(panel.lines.at(-1)?.label, "idling");
  assert.equal(panel.bands.length, panel.lines.length - 1);
  const many = power({ consumers: Array.from({ length: 10 }, (_, i) => ({ name: `p${i}`, processes: 1, mean_watts: 1, watts: [1, 1] })), others: [0, 10], unseen: [0, 0] });
  assert.deepEqual(stacked(many).lines[0]?.drawn, [30, 40], "those without a colour are among the others");
  assert.equal(stacked(many).lines.length, 8);
});

test("rows of consumers add up to the node's mean", () => {
  const rows = consumerRows(power());
  assert.deepEqual(rows.map((row) => row.label), ["worker", "helper", "All other processes", "Not found", "Idling"]);
  assert.equal(rows[0]?.around, "container aaaaaaaaaaaa");
  assert.equal(rows[1]?.now, null, "among the others now");
  const named = power();
  named.consumers[0]!.owner = { kind: "container", id: "a".repeat(64), name: "camera" };
  assert.equal(consumerRows(named)[0]?.around, "container camera");
  assert.ok(Math.abs(rows.reduce((sum, row) => sum + row.mean, 0) - 35) < 1e-9);
  assert.ok(Math.abs(rows.reduce((sum, row) => sum + row.share, 0) - 1) < 1e-9);
});

const predictor = (some: Partial<PowerPredictor>): PowerPredictor => ({ pipeline: "p", name: "AutoTrainer_0", trainer: "AutoTrainer", source: "acpi", output_type: "AbsPower", feature_group: "BPFOnly", node_type: 0, errors: [], is_usable: true, is_in_use: false, ...some });

test("predictors are joined by machine in the order in which they come", () => {
  const groups = byMachine([predictor({ node_type: 4, machine: { cores: 8 } }), predictor({ pipeline: "q" }), predictor({ node_type: 4, name: "x" })]);
  assert.deepEqual(groups.map((group) => [group.pipeline, group.nodeType, group.predictors.length]), [["p", 4, 2], ["q", 0, 1]]);
  assert.deepEqual([0, 0.831, 1].map(alike), ["unlike this one", "83 % like this one", "like this one"]);
  assert.equal(groups[0]?.text, "8 threads");
  assert.equal(groups[1]?.text, "a machine that its pipeline does not tell");
  assert.equal(machineText({ processor: "amd_epyc_7763", cores: 128, chips: 2, memory_bytes: 2 ** 38, frequency_hertz: 2.4e9 }), "amd epyc 7763, 128 threads, 2 chips, 256 GiB, 2.40 GHz");
});

test("errors are written by component, and parts that take nothing say nothing", () => {
  const errors = [{ component: "package", mae_watts: 5.48, mape_ratio: 0.0762 }, { component: "dram", mae_watts: 1.67 }, { component: "core", mae_watts: 0 }];
  assert.deepEqual(telling(errors).map(errorText), ["package 5.48 W (7.62 %)", "dram 1.67 W"]);
  assert.equal(telling([{ component: "core", mae_watts: 0 }]).length, 1);
  assert.equal(errorText({ component: null, mape_ratio: 0.5 }), "all 50.0 %");
  assert.deepEqual(["AutoTrainer", "XgboostFitTrainer", "LinearRegressionTrainer", "SVRRegressorTrainer"].map(trainerText), ["Auto", "Xgboost", "Linear", "SVR"]);
  assert.deepEqual(missingRows({ measured: "x", odd: "y" }).map((row) => row.label), ["Measured power", "odd"]);
});

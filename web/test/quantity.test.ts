import assert from "node:assert/strict";
import { test } from "node:test";
import * as q from "../src/quantity";

// The same cases as the tests of metier-types/src/quantity.rs.
test("durations read as the terminal writes them", () => {
  const cases: [number, string][] = [
    [0, "0 s"], [0.00000042, "420 ns"], [0.000831, "831 µs"], [0.0124, "12.4 ms"], [0.9999, "1.00 s"], [1.034, "1.03 s"],
    [59.96, "60.0 s"], [125, "2 min 05 s"], [7260, "2 h 01 min"], [Number.NaN, "?"],
  ];
  for (const [value, want] of cases) assert.equal(q.seconds(value), want);
});

test("sizes use binary units", () => {
  const cases: [number, string][] = [
    [0, "0 B"], [999, "999 B"], [1000, "0.98 KiB"], [1024 * 1024, "1.00 MiB"], [419_430_400, "400 MiB"], [1_073_741_824, "1.00 GiB"],
  ];
  for (const [value, want] of cases) assert.equal(q.bytes(value), want);
});

test("ties round to even, as Rust's formatter does", () => {
  const cases: [number, string][] = [[100.5, "100"], [101.5, "102"], [12.25, "12.2"], [12.75, "12.8"], [0.125, "0.12"], [0.375, "0.38"], [1.005, "1.00"], [2.675, "2.67"]];
  for (const [value, want] of cases) assert.equal(q.threeDigits(value), want);
});

test("other units", () => {
  assert.equal(q.ratio(0.0312), "3.12 %");
  assert.equal(q.hertz(3.6e9), "3.60 GHz");
  assert.equal(q.hertz(8e8), "800 MHz");
  assert.equal(q.celsius(58.46), "58.5 °C");
  assert.equal(q.count(1234567), "1\u202f234\u202f567");
  assert.equal(q.change(-0.12), "−12.0 %");
  assert.equal(q.change(0.031), "+3.10 %");
});

test("an absent value is a dash, zero is not", () => {
  assert.equal(q.field(null, "wall_seconds"), "–");
  assert.equal(q.field(undefined, "read_bytes"), "–");
  assert.equal(q.field(0, "read_bytes"), "0 B");
});

test("the short id is the last 8 digits", () => {
  assert.equal(q.shortId("0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f"), "7e9d1b2f");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { filterQuery, format, isFiltered, noFilters, parse, type Address } from "../src/address";

test("every address reads back as it was written", () => {
  const all: Address[] = [
    { page: "runs", filters: noFilters() },
    { page: "runs", filters: { ...noFilters(), text: "a b&c=d#e?f/ü", workload: "x/y z", state: "running", tag: "ci,nightly", warmup: "true", after: "cur+sor==" } },
    { page: "run", id: "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f", from: null, to: null },
    { page: "run", id: "r", from: 0.25, to: 12.5 },
    { page: "compare", a: ["1", "2"], b: ["3"] },
    { page: "compare", a: [], b: [] },
    { page: "devices" },
    { page: "queue" },
    { page: "graphs" },
    { page: "power" },
    { page: "device", id: "board/7 %" },
  ];
  for (const address of all) assert.deepEqual(parse(format(address)), address);
});

test("an empty address is the list, an odd one is unknown", () => {
  assert.equal(parse("").page, "runs");
  assert.equal(parse("#/").page, "runs");
  assert.equal(parse("#/nowhere").page, "unknown");
  assert.equal(parse("#/runs/a/b").page, "unknown");
  assert.deepEqual(parse("#/runs/%E0%A4%A"), { page: "run", id: "%E0%A4%A", from: null, to: null });
});

test("a zoom that is not a number is no zoom", () => {
  assert.deepEqual(parse("#/runs/x?from=abc&to="), { page: "run", id: "x", from: null, to: null });
});

test("filters that are not set stay out of the query", () => {
  assert.equal(filterQuery(noFilters()).toString(), "");
  assert.equal(filterQuery({ ...noFilters(), tag: "ci", text: "x y" }).toString(), "text=x+y&tag=ci");
  assert.equal(isFiltered({ ...noFilters(), after: "c" }), false);
  assert.equal(isFiltered({ ...noFilters(), warmup: "true" }), false);
});

// Power: what the node takes, power by process, the predictors with their errors; with a meter and without, in both themes and on a phone.

import assert from "node:assert/strict";
import { inked, lowContrast, nameless } from "./facts.mjs";
import { noOverflow } from "./store.mjs";

const CANVAS = "[data-panel=power] canvas";

async function opened(page, t) {
  await page.goto(`${t.base}#/power`);
  await page.waitForSelector("[data-testid=conclusion]");
  await page.waitForSelector(CANVAS);
  await page.waitForSelector("tr[data-predictor]");
}

/** The server's own answer, with a meter that it may not have and a longer history. */
async function metered(page, t) {
  const told = await t.api("power");
  const rows = 200;
  const last = (list, otherwise) => list.findLast((value) => value !== null) ?? otherwise;
  const of = (value) => Array.from({ length: rows }, (_, i) => Math.round(1000 * (value + value * 0.2 * Math.sin(i / 9))) / 1000);
  const estimated = of(last(told.estimated, 30));
  const measured = estimated.map((watts, i) => (i > 80 && i < 90 ? null : Math.round(1000 * (watts * 1.1 + Math.sin(i))) / 1000));
  const idle = estimated.map((watts) => watts / 2);
  const answer = {
    ...told,
    times: Array.from({ length: rows }, (_, i) => 5 * i),
    meters: ["rapl:package-0", "rapl:dram-0:0"],
    covers: "package-and-memory",
    idle_from: "meter-fitted",
    busy_cores: of(1),
    estimated,
    measured,
    low: of(15),
    high: of(300),
    idle,
    others: estimated.map((watts, i) => (measured[i] ?? watts) - idle[i] - watts / 4),
    unseen: estimated.map(() => 0),
    consumers: [{ name: "<b>python3</b>", owner: { kind: "container", id: "a".repeat(64) }, processes: 3, mean_watts: 7, watts: estimated.map((watts) => watts / 4) }],
    compared: { entries: 190, mae_watts: 3.4, mape_ratio: 0.102, bias_watts: -3.2, inside_ratio: 0.93 },
    missing: {},
  };
  await page.route("**/api/v1/power", (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(answer) }));
  return answer;
}

export const POWER_CHECKS = [
  ["the node's power is told in a sentence, drawn, shared, and what is missing has its reason", async (page, t) => {
    await opened(page, t);
    const told = await t.api("power");
    const isMeasured = told.meters.length > 0;
    assert.match(await page.textContent("[data-testid=conclusion]"), isMeasured ? /takes? .+ W now, measured/ : /takes? about .+ W now, estimated/);
    assert.match(await page.textContent("[data-testid=against]"), isMeasured ? /Over .+ the estimate is off by/ : /No meter: .+ All figures are estimated/);
    for (const field of Object.keys(told.missing)) assert.equal(await page.textContent(`[data-missing="${field}"]`), told.missing[field]);
    assert.ok((await page.$eval(CANVAS, inked)) > 100, "the chart is not blank");
    assert.ok((await page.$eval("[data-panel=shares] canvas", inked)) > 100, "nor is the stack");
    await page.waitForSelector('tr[data-consumer="Idling"]');
    await t.shot(page, "power", true);
  }],
  ["figures of every moment add up to what the node takes", async (page, t) => {
    const told = await t.api("power");
    assert.ok(told.times.length > 0);
    for (let row = 0; row < told.times.length; row++) {
      const node = told.measured[row] ?? told.estimated[row];
      const parts = [...told.consumers.map((one) => one.watts[row] ?? 0), told.idle[row], told.others[row], told.unseen[row]];
      assert.ok(Math.abs(parts.reduce((a, b) => a + b, 0) - node) < 0.02, `${parts} ${node}`);
    }
  }],
  ["measured stands against estimated where there is a meter, and the legend follows the pointer", async (page, t) => {
    const answer = await metered(page, t);
    await opened(page, t);
    assert.match(await page.textContent("[data-testid=conclusion]"), /takes? .+ W now, measured\. The estimate says/);
    assert.match(await page.textContent("[data-testid=against]"), /off by 3\.40 W \(10\.2 %\) on average, mostly too low\. 93\.0 % of the measured values/);
    const legend = page.locator("[data-testid=legend-power]");
    assert.match(await legend.textContent(), /measured/);
    const before = await legend.textContent();
    const box = await page.locator("[data-panel=power] .u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.425, box.y + box.height / 2);
    await page.waitForFunction((text) => document.querySelector("[data-testid=legend-power]").textContent !== text, before);
    assert.match(await legend.textContent(), /measured –/, "no reading is a dash, not 0");
    assert.equal(await page.locator("main b:not([style])").count(), 0, "names are never taken for markup");
    assert.ok((await page.textContent("main")).includes(answer.consumers[0].name));
    await page.mouse.move(0, 0);
    await t.shot(page, "power-metered", true);
    await page.emulateMedia({ colorScheme: "light" });
    await t.shot(page, "power-metered-light", true);
  }],
  ["predictors stand by machine with their worst error, and can be narrowed", async (page, t) => {
    await opened(page, t);
    const all = await t.api("power/predictors");
    const machines = new Set(all.predictors.map((one) => `${one.pipeline} ${one.node_type}`));
    assert.equal(await page.locator("tbody[data-machine]").count(), machines.size);
    await page.selectOption("form[aria-label='Which predictors'] select >> nth=0", "acpi");
    const acpi = await t.api("power/predictors?source=acpi&limit=60");
    await page.waitForFunction((n) => document.querySelectorAll("tr[data-predictor]").length === n, acpi.predictors.length);
    assert.match(await page.locator("tr[data-predictor]").first().textContent(), /\d W/);
    await page.selectOption("form[aria-label='Which predictors'] select >> nth=2", "AcceleratorOnly");
    await page.waitForSelector("[data-testid=no-predictors]");
  }],
  ["a node that nobody looks at, and a server that fails, are told", async (page, t) => {
    t.expectFaults(true);
    const problem = (status, detail) => ({ status, contentType: "application/problem+json", body: JSON.stringify({ type: "about:blank", title: "Problem", status, detail, errors: [] }) });
    await page.route("**/api/v1/power", (route) => route.fulfill(problem(503, "start it without --no-power")));
    await page.goto(`${t.base}#/power`);
    await page.waitForSelector("text=Nobody looks at the power of this node");
    assert.match(await page.textContent("main"), /--no-power/);
    await page.unroute("**/api/v1/power");
    await page.route("**/api/v1/power", (route) => route.fulfill(problem(500, "it broke")));
    await page.goto(`${t.base}#/runs`);
    await page.goto(`${t.base}#/power`);
    await page.waitForSelector("text=it broke");
    await page.unroute("**/api/v1/power");
    await page.click("text=Try again");
    await page.waitForSelector("[data-testid=conclusion]");
  }],
  ["power has contrast AA and names in both themes, and fits a phone with its header", async (page, t) => {
    await metered(page, t);
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      await opened(page, t);
      await page.waitForTimeout(300);
      assert.deepEqual(await page.evaluate(lowContrast), [], colorScheme);
      assert.deepEqual(await page.evaluate(nameless), [], colorScheme);
    }
    for (const width of [360, 400, 500, 700]) {
      await page.setViewportSize({ width, height: 740 });
      await page.waitForTimeout(150);
      await noOverflow(page, `power at ${width} px`);
      const header = await page.$eval("header", (e) => [e.scrollWidth, e.clientWidth]);
      assert.ok(header[0] <= header[1], `the header at ${width} px: ${header}`);
      const links = await page.$$eval("nav[aria-label=Pages] a", (all) => all.map((a) => a.getBoundingClientRect().right));
      assert.ok(Math.max(...links) <= width, `links at ${width} px end at ${links}`);
    }
    await page.setViewportSize({ width: 360, height: 740 });
    await t.shot(page, "phone-power", true);
  }],
];

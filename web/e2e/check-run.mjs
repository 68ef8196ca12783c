// A run: verdict, time line, processes, refreshing.

import assert from "node:assert/strict";
import { inked } from "./facts.mjs";
import { Skip, richRun, openRun, rangeOf, plotOf } from "./store.mjs";

export const RUN_CHECKS = [
  ["a run has its verdict, figures with quality, trust box and what is missing", async (page, t) => {
    const { run: row } = await richRun(t);
    const run = await t.api(`runs/${row.id}`);
    await openRun(page, t, row.id);
    const verdict = await page.textContent("[data-testid=verdict]");
    // Runs of earlier versions have none; the page then makes its own.
    if (run.verdict) assert.equal(verdict.trim(), run.verdict);
    assert.equal(await page.locator("section[aria-label=Summary] dt").count(), 9);
    const exact = Object.entries(run.quality).filter(([path, quality]) => path.startsWith("summary.") && path !== "summary.own_overhead_ratio" && quality === "exact").length;
    assert.ok((await page.locator("section[aria-label=Summary] .exact").count()) >= Math.min(1, exact));
    for (const [path, text] of Object.entries(run.missing)) {
      const figure = page.locator(`section[aria-label=Summary] [data-path="${path}"]`);
      if ((await figure.count()) > 0) assert.match(await figure.textContent(), /not measured: /);
      assert.ok((await page.textContent("[data-testid=trust]")).includes(text.split("; fix: ")[0]), `the trust box gives the reason for ${path}`);
    }
    for (const warning of run.warnings) assert.ok((await page.textContent("[data-testid=trust]")).includes(warning.text.slice(1)));
    await page.waitForSelector("[data-panel] canvas");
    await t.shot(page, "run-dark", true);
  }],

  ["files of a run are downloads, and what it was part of is told", async (page, t) => {
    const { run: row } = await richRun(t);
    const { runs } = await t.api("runs?limit=200");
    const wanted = runs.find((other) => other.workload.name === "edge-detector") ?? row;
    const run = await t.api(`runs/${wanted.id}`);
    await openRun(page, t, run.id);
    for (const file of run.artefacts) {
      const link = page.locator("[data-testid=files] a", { hasText: file.name });
      assert.equal(await link.getAttribute("href"), `api/v1/runs/${run.id}/artefacts/${encodeURIComponent(file.name)}`);
    }
    if (run.exit?.detail) assert.equal((await page.textContent("[data-testid=exit-detail]")).trim(), run.exit.detail);
    for (const other of run.context.company ?? []) assert.equal(await page.locator("[data-testid=surroundings] a", { hasText: other.name }).getAttribute("href"), `#/runs/${other.run}`);
    for (const phase of run.context.phases ?? []) assert.ok((await page.textContent("[data-testid=phases]")).includes(phase.name));
    await t.shot(page, "run-surroundings", true);
  }],

  ["the time line draws every row it was given, in panels over one axis", async (page, t) => {
    const { run, use } = await richRun(t);
    await openRun(page, t, run.id);
    await page.waitForSelector('[data-panel="cpu"] canvas');
    for (const key of ["cpu", "memory"]) {
      assert.equal(Number(await page.getAttribute(`[data-panel="${key}"]`, "data-rows")), use.times.length);
      await page.waitForTimeout(100);
      assert.ok((await page.$eval(`[data-panel="${key}"] canvas`, inked)) > 500, `${key} is drawn`);
    }
    const lefts = await page.$$eval("[data-panel] .u-over", (all) => all.map((e) => `${e.getBoundingClientRect().left} ${e.getBoundingClientRect().width}`));
    assert.equal(new Set(lefts).size, 1, "panels line up");
  }],

  ["the read-out at the cursor is that of the sample under it, over all panels", async (page, t) => {
    const { run, use } = await richRun(t);
    await openRun(page, t, run.id);
    await page.waitForSelector('[data-panel="memory"] canvas');
    const box = await plotOf(page, "cpu");
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
    await page.waitForFunction(() => document.querySelector("[data-testid=readout]").textContent.includes("at "));
    const [from, to] = await rangeOf(page);
    const time = (from + (to - from) * 0.6) * 1e9;
    const nearest = use.times.reduce((best, at, i) => (Math.abs(at - time) < Math.abs(use.times[best] - time) ? i : best), 0);
    const memory = use.columns.find((column) => column.name === "memory");
    if (memory && !(memory.absent ?? []).includes(nearest)) {
      const close = [nearest - 1, nearest, nearest + 1].filter((i) => i >= 0 && i < use.times.length).map((i) => memory.values.integer[i]);
      const text = await page.$eval('[data-panel="memory"]', (e) => e.parentElement.querySelector(".legend .value").textContent);
      const [number, unit] = text.split(" ");
      const read = Number(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].indexOf(unit);
      assert.ok(close.some((value) => Math.abs(value - read) <= 0.006 * value + 1), `${text} is not one of ${close}`);
    }
    const lines = await page.$$eval("[data-panel] .u-cursor-x", (all) => all.map((e) => Math.round(e.getBoundingClientRect().left)));
    assert.ok(Math.max(...lines) - Math.min(...lines) <= 1, `cursor lines stand together: ${lines}`);
    await t.shot(page, "run-cursor");
  }],

  ["zoom by drag, wheel, keys and buttons; reset shows all; the view stands in the address", async (page, t) => {
    const { run } = await richRun(t);
    await openRun(page, t, run.id);
    await page.waitForSelector('[data-panel="cpu"] canvas');
    const all = await rangeOf(page);
    const span = ([from, to]) => to - from;
    const box = await plotOf(page, "cpu");
    await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.75, box.y + 50, { steps: 5 });
    await page.mouse.up();
    await page.waitForFunction(() => location.hash.includes("from="));
    const dragged = await rangeOf(page);
    assert.ok(Math.abs(span(dragged) / span(all) - 0.5) < 0.02, `half is in view: ${dragged}`);
    await page.waitForTimeout(600);
    await t.shot(page, "run-zoomed");
    await page.mouse.wheel(0, -300);
    await page.waitForFunction((s) => Number(document.querySelector("[data-testid=timeline]").dataset.to) - Number(document.querySelector("[data-testid=timeline]").dataset.from) < s * 0.9, span(dragged));
    const wheeled = await rangeOf(page);
    await page.keyboard.press("+");
    assert.ok(span(await rangeOf(page)) < span(wheeled));
    await page.keyboard.press("Shift+ArrowLeft");
    assert.ok((await rangeOf(page))[0] < dragged[1]);
    await page.reload();
    await page.waitForSelector('[data-panel="cpu"] canvas');
    assert.ok(span(await rangeOf(page)) < span(wheeled), "a link keeps the view");
    await page.locator("[data-testid=timeline]").focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent("[data-testid=readout]"), /at /);
    await page.keyboard.press("0");
    assert.deepEqual(await rangeOf(page), all);
    await page.click("button[aria-label='Zoom in']");
    assert.ok(Math.abs(span(await rangeOf(page)) / span(all) - 0.5) < 0.02);
    await page.dblclick('[data-panel="cpu"] .u-over');
    assert.deepEqual(await rangeOf(page), all);
  }],

  ["a finger on the time line moves the read-out", async (page, t) => {
    const { run } = await richRun(t);
    await openRun(page, t, run.id);
    await page.waitForSelector('[data-panel="cpu"] canvas');
    await page.$eval('[data-panel="cpu"] .u-over', (over) => {
      const box = over.getBoundingClientRect();
      over.dispatchEvent(new PointerEvent("pointermove", { pointerType: "touch", bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 20 }));
    });
    await page.waitForFunction(() => document.querySelector("[data-testid=readout]").textContent.includes("at "));
  }],

  ["plots take the colours of the theme at once", async (page, t) => {
    const { run } = await richRun(t);
    await openRun(page, t, run.id);
    await page.waitForSelector('[data-panel="cpu"] canvas');
    await page.waitForTimeout(200);
    const picture = () => page.$eval('[data-panel="cpu"] canvas', (canvas) => canvas.toDataURL());
    const dark = await picture();
    await page.keyboard.press("t");
    await page.waitForTimeout(200);
    assert.notEqual(await picture(), dark);
    await page.keyboard.press("t");
    await page.waitForTimeout(200);
    assert.equal(await picture(), dark);
    await page.evaluate(() => localStorage.clear());
  }],

  ["a wheel without focus scrolls the page and does not zoom", async (page, t) => {
    const { run } = await richRun(t);
    await openRun(page, t, run.id);
    await page.waitForSelector('[data-panel="cpu"] canvas');
    const box = await plotOf(page, "cpu");
    await page.mouse.move(box.x + 200, box.y + 40);
    await page.mouse.wheel(0, 200);
    await page.waitForFunction(() => scrollY > 0);
    assert.ok(!page.url().includes("from="));
  }],

  ["a zoomed view of a long run is drawn from every sample in it", async (page, t) => {
    const { run: row, use } = await richRun(t);
    const run = await t.api(`runs/${row.id}`);
    if (!((run.context.sampling?.samples ?? 0) > use.times.length)) throw new Skip("no run has more samples than are drawn at once");
    const wall = run.summary.wall_seconds;
    const [from, to] = [wall * 0.4, wall * 0.42];
    const { series } = await t.api(`runs/${row.id}/series?points=200000&from=${Math.round(from * 1e9)}&to=${Math.round(to * 1e9)}`);
    const inside = series.find((one) => one.name === "use").times.length;
    await page.goto(`${t.base}#/runs/${row.id}?from=${from}&to=${to}`);
    await page.waitForFunction((least) => Number(document.querySelector('[data-panel="memory"]')?.dataset.rows ?? 0) >= least, inside);
    const before = use.times.filter((time) => time >= from * 1e9 && time <= to * 1e9).length;
    assert.ok(inside > before, `${inside} samples in view, ${before} before`);
  }],

  ["120,000 samples at once are drawn, zoomed and read", async (page, t) => {
    const { run } = await richRun(t);
    const n = 120_000;
    const whole = (make) => ({ integer: Array.from({ length: n }, (_, i) => make(i)) });
    const use = { schema: "metier.series/1", run: run.id, name: "use", times: whole((i) => i * 1e7).integer, columns: [
      { name: "cpu", kind: "counter", unit: "nanoseconds", values: whole((i) => i * 1.5e7) },
      { name: "memory", kind: "gauge", unit: "bytes", values: whole((i) => 1e8 + (i % 5000) * 1e4) },
      { name: "read", kind: "counter", unit: "bytes", values: whole((i) => i * 1000) },
      { name: "written", kind: "counter", unit: "bytes", values: whole((i) => i * 500) },
    ] };
    await page.route("**/series?*", (route) => route.fulfill({ json: { schema: "metier.series-list/1", series: [use] } }));
    // Nothing is drawn above the record's peak, so the record has to be of this series.
    const record = await t.api(`runs/${run.id}`);
    await page.route(`**/runs/${run.id}`, (route) => route.fulfill({ json: { ...record, cpu: { ...record.cpu, peak_cores: 1.5 } } }));
    await openRun(page, t, run.id);
    await page.waitForFunction((rows) => Number(document.querySelector('[data-panel="cpu"]')?.dataset.rows) === rows, n);
    const box = await plotOf(page, "cpu");
    const begun = Date.now();
    await page.locator("[data-testid=timeline]").focus();
    await page.mouse.move(box.x + box.width / 2, box.y + 30);
    for (let i = 0; i < 10; i++) await page.keyboard.press("+");
    for (let i = 0; i < 20; i++) await page.mouse.move(box.x + box.width / 2 + i * 5, box.y + 30);
    console.log(`      10 zooms and 20 cursor moves over 4 × 120,000 samples took ${Date.now() - begun} ms`);
    const [from, to] = await rangeOf(page);
    assert.ok(to - from < 10);
    assert.match(await page.$eval('[data-panel="cpu"]', (e) => e.parentElement.querySelector(".legend .value").textContent), /^1\.50 cores$/);
  }],

  ["the process tree lists all processes but renders only those in view", async (page, t) => {
    const { runs } = await t.api("runs?limit=200&state=finished");
    const most = runs.sort((a, b) => (b.summary.processes ?? 0) - (a.summary.processes ?? 0))[0];
    const tree = await t.api(`runs/${most.id}/processes`).catch(() => null);
    if (tree === null || tree.processes.length === 0) throw new Skip("no run has a process tree");
    await openRun(page, t, most.id);
    const grid = page.locator("[data-testid=tree]");
    await grid.waitFor();
    await page.click("text=Open all");
    assert.equal(Number(await grid.getAttribute("aria-rowcount")), tree.processes.length);
    assert.ok((await grid.locator("[role=row]").count()) <= 40);
    await page.click("section[aria-labelledby=tree-title] button:text-is('CPU')");
    await grid.focus();
    await page.keyboard.press("End");
    await page.waitForFunction((last) => document.querySelector(`[data-testid=tree] [aria-rowindex="${last}"]`) !== null, tree.processes.length);
    await page.keyboard.press("Home");
    if (tree.processes.length > 1) {
      await page.keyboard.press("ArrowLeft");
      assert.ok(Number(await grid.getAttribute("aria-rowcount")) < tree.processes.length, "closing the root hides what is below it");
      await page.keyboard.press("ArrowRight");
      assert.equal(Number(await grid.getAttribute("aria-rowcount")), tree.processes.length);
    }
    await grid.scrollIntoViewIfNeeded();
    await t.shot(page, "tree");
  }],

  ["the peak of busy cores is that of the record", async (page, t) => {
    const { run: row } = await richRun(t);
    const { cpu } = await t.api(`runs/${row.id}`);
    if (typeof cpu?.peak_cores !== "number") throw new Skip("the record has no peak of cores");
    await openRun(page, t, row.id);
    await page.waitForSelector('[data-panel="cpu"] canvas');
    const shown = await page.$eval('[data-panel="cpu"]', (e) => e.parentElement.querySelector(".legend .value").textContent);
    assert.ok(Math.abs(Number.parseFloat(shown) - cpu.peak_cores) < 0.01, `${shown}, not ${cpu.peak_cores}`);
  }],

  ["a run that never started is not called trustworthy", async (page, t) => {
    const { runs } = await t.api("runs?cause=unstarted");
    if (runs.length === 0) throw new Skip("every run started");
    await openRun(page, t, runs[0].id);
    const trust = await page.textContent("[data-testid=trust] h2");
    assert.match(trust, /not measured to its end/);
    assert.doesNotMatch(trust, /nothing speaks against it/);
  }],

  ["a run under way refreshes by itself", async (page, t) => {
    const { runs } = await t.api("runs?state=running");
    if (runs.length === 0) throw new Skip("no run is under way");
    await openRun(page, t, runs[0].id);
    await page.waitForSelector('[data-panel="cpu"]');
    const verdict = await page.textContent("[data-testid=verdict]");
    const rows = Number(await page.getAttribute('[data-panel="cpu"]', "data-rows"));
    await t.shot(page, "run-live");
    await page.waitForFunction(([old, n]) => document.querySelector("[data-testid=verdict]").textContent !== old && Number(document.querySelector('[data-panel="cpu"]').dataset.rows) > n, [verdict, rows]);
  }],
];

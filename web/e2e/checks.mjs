// What the page must do, one check for each behaviour. They find out from the API what the store holds, so that they
// hold for any store with a few runs.

import assert from "node:assert/strict";
import { inked, lowContrast, nameless } from "./facts.mjs";

/** The store at hand cannot show this. */
export class Skip extends Error {}

const LIST = "[data-row]";

async function openList(page, base, query = "") {
  await page.goto(`${base}#/runs${query}`);
  await page.waitForSelector(LIST);
}

/** A finished run with many samples. */
async function richRun({ api }) {
  const { runs } = await api("runs?limit=200&state=finished");
  const best = runs.filter((run) => run.exit?.cause === "exited").sort((a, b) => (b.summary.wall_seconds ?? 0) - (a.summary.wall_seconds ?? 0));
  for (const run of best.slice(0, 5)) {
    const { series } = await api(`runs/${run.id}/series?points=4000`);
    const use = series.find((one) => one.name === "use");
    if ((use?.times.length ?? 0) >= 10) return { run, use, series };
  }
  throw new Skip("no finished run has 10 samples");
}

async function openRun(page, { base }, id) {
  await page.goto(`${base}#/runs/${id}`);
  await page.waitForSelector("[data-testid=verdict]");
}

const rangeOf = (page) => page.$eval("[data-testid=timeline]", (e) => [Number(e.dataset.from), Number(e.dataset.to)]);
const plotOf = async (page, key) => (await page.$(`[data-panel="${key}"] .u-over`)).boundingBox();

async function batches({ api }, least) {
  const { runs } = await api("runs?limit=500&state=finished");
  const by = new Map();
  for (const run of runs) if (run.exit?.cause === "exited" && run.exit.code === 0) by.set(run.batch, [...(by.get(run.batch) ?? []), run]);
  const found = [...by.values()].filter((group) => group.length >= least);
  const first = found.find((group) => found.some((other) => other !== group && other[0].workload.id === group[0].workload.id)) ?? found[0];
  const second = found.find((group) => group !== first && group[0].workload.id === first?.[0].workload.id) ?? found.find((group) => group !== first);
  if (first === undefined || second === undefined) throw new Skip(`there are no two batches of ${least} good runs`);
  return [first, second];
}

async function noOverflow(page, what) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(over <= 0, `${what} is ${over} px too wide`);
}

export const CHECKS = [
  ["the list shows the runs of the store, newest first", async (page, t) => {
    const { runs, total } = await t.api("runs?limit=50");
    assert.ok(total > 0, "the store has runs");
    await openList(page, t.base);
    const groups = runs.filter((run, i) => run.batch !== runs[i - 1]?.batch).length;
    assert.equal(await page.locator(LIST).count(), groups);
    assert.ok((await page.textContent("[data-testid=total]")).replace(/\D/g, "").startsWith(String(total)));
    await t.shot(page, "list-dark");
  }],

  ["a batch opens to its runs", async (page, t) => {
    const [batch] = await batches(t, 2);
    await openList(page, t.base, `?batch=${batch[0].batch}`);
    const fold = page.locator("button[data-row]").first();
    const before = await page.locator(LIST).count();
    await fold.click();
    assert.equal(await fold.getAttribute("aria-expanded"), "true");
    assert.ok((await page.locator(LIST).count()) > before + 1);
    await t.shot(page, "list-batch");
  }],

  ["filters narrow the list, stand in the address and survive a reload", async (page, t) => {
    const { runs } = await t.api("runs?limit=1");
    const word = runs[0].workload.name.slice(0, 12);
    const { total } = await t.api(`runs?limit=1&text=${encodeURIComponent(word)}`);
    await openList(page, t.base);
    await page.keyboard.press("/");
    await page.keyboard.type(word);
    await page.waitForFunction(() => location.hash.includes("text="));
    await page.waitForFunction((n) => document.querySelector("[data-testid=total]").textContent.replace(/\D/g, "") === String(n), total);
    await page.reload();
    await page.waitForSelector(LIST);
    assert.equal(await page.inputValue("input[type=search]"), word);
    await page.fill("input[type=search]", "no run is called like this");
    await page.waitForSelector("text=No run matches");
    await t.shot(page, "list-no-match");
    await page.click("text=Clear the filters");
    await page.waitForSelector(LIST);
    const state = await page.$("select[aria-label=State]");
    await state.selectOption("finished");
    await page.waitForFunction(() => location.hash.includes("state=finished"));
  }],

  ["older runs are a page away, and the way back leads to the newest", async (page, t) => {
    const { next, total } = await t.api("runs?limit=50");
    if (next === null) throw new Skip(`${total} runs fit on one page`);
    await openList(page, t.base);
    const first = await page.locator(LIST).first().textContent();
    await page.click("text=Older");
    await page.waitForFunction(() => location.hash.includes("after="));
    await page.waitForSelector("text=Newest");
    await page.waitForFunction((old) => document.querySelector("[data-row]")?.textContent !== old, first);
    await page.keyboard.press("p");
    await page.waitForFunction((old) => document.querySelector("[data-row]")?.textContent === old, first);
  }],

  ["the list is usable by keyboard alone", async (page, t) => {
    await openList(page, t.base);
    const at = () => page.evaluate(() => document.activeElement?.getAttribute("data-row"));
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
    await page.keyboard.press("j");
    assert.equal(await at(), "0");
    await page.keyboard.press("ArrowDown");
    assert.equal(await at(), "1");
    await page.keyboard.press("k");
    assert.equal(await at(), "0");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "the focus can be seen");
    await page.keyboard.press("a");
    await page.waitForSelector("section[aria-label='Picked for comparison']");
    await page.click("text=Clear");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await t.shot(page, "keys");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "hidden" });
    const link = page.locator("a[data-row]").first();
    await link.focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-testid=verdict]");
    await page.keyboard.press("u");
    await page.waitForSelector(LIST);
  }],

  ["a run has its verdict, figures with quality, trust box and what is missing", async (page, t) => {
    const { run: row } = await richRun(t);
    const run = await t.api(`runs/${row.id}`);
    await openRun(page, t, row.id);
    const verdict = await page.textContent("[data-testid=verdict]");
    assert.match(verdict, /after .+; it used /);
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

  ["two batches picked in the list are compared", async (page, t) => {
    const [a, b] = await batches(t, 3);
    await openList(page, t.base, `?batch=${a[0].batch}`);
    await page.locator("button.a").first().click();
    await openList(page, t.base, `?batch=${b[0].batch}`);
    await page.waitForFunction((id) => location.hash.includes(id), b[0].batch);
    await page.waitForTimeout(400);
    await page.locator("button.b").first().click();
    await page.click("section[aria-label='Picked for comparison'] >> text=Compare");
    await page.waitForSelector("[data-testid=conclusion]");
    const { metrics } = await t.api(`compare?a=${a[0].batch}&b=${b[0].batch}`);
    assert.equal(await page.locator("tr[data-field]").count(), metrics.length);
    for (const metric of metrics) assert.ok((await page.textContent(`tr[data-field=${metric.field}] .c-verdict`)).startsWith(metric.verdict.replaceAll("-", " ")));
    await page.waitForSelector("[data-panel=cpu-CPU] canvas");
    await t.shot(page, "compare-dark", true);
    await page.click("text=Swap A and B");
    await page.waitForFunction((id) => location.hash.startsWith(`#/compare?a=${id}`), b[0].batch);
    await page.goto(`${t.base}#/runs`);
    await page.click("text=Clear");
  }],

  ["a comparison without sides says how to pick them", async (page, t) => {
    await page.goto(`${t.base}#/compare`);
    await page.waitForSelector("text=Pick two sides first");
  }],

  ["devices are listed and lead to their runs", async (page, t) => {
    const { devices } = await t.api("devices");
    await page.goto(`${t.base}#/devices`);
    await page.waitForSelector("h2 a");
    assert.equal(await page.locator("h2 a").count(), devices.length);
    await t.shot(page, "devices");
    await page.locator("h2 a").first().click();
    await page.waitForSelector("text=What it is made of");
    await t.shot(page, "device");
    await page.click("text=all runs here");
    await page.waitForSelector(LIST);
    assert.match(page.url(), /device=/);
  }],

  ["light and dark follow the system until one is chosen, and the choice is remembered", async (page, t) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    await openList(page, t.base);
    const dark = await ground();
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    assert.notEqual(dark, light);
    await t.shot(page, "list-light");
    await page.keyboard.press("t");
    assert.equal(await ground(), dark);
    await page.reload();
    await page.waitForSelector(LIST);
    assert.equal(await ground(), dark);
    await page.evaluate(() => localStorage.clear());
    const { run } = await richRun(t);
    await page.reload();
    await openRun(page, t, run.id);
    await page.waitForSelector("[data-panel] canvas");
    await t.shot(page, "run-light", true);
  }],

  ["texts have contrast AA and controls have names, in both themes", async (page, t) => {
    const { run } = await richRun(t);
    const pair = await batches(t, 1).catch(() => null);
    const pages = [["list", "#/runs", LIST], ["run", `#/runs/${run.id}`, "section[aria-labelledby=tree-title] :is([data-testid=tree], .empty)"], ["devices", "#/devices", "h2 a"]];
    if (pair !== null) pages.push(["comparison", `#/compare?a=${pair[0][0].id}&b=${pair[1][0].id}`, "[data-testid=conclusion]"]);
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      for (const [name, hash, wait] of pages) {
        await page.goto(`${t.base}${hash}`);
        await page.locator(wait).first().waitFor();
        await page.waitForTimeout(300);
        assert.deepEqual(await page.evaluate(lowContrast), [], `${colorScheme} ${name}`);
        assert.deepEqual(await page.evaluate(nameless), [], `${colorScheme} ${name}`);
      }
    }
  }],

  ["nothing moves when reduced motion is wished", async (page, t) => {
    await page.emulateMedia({ reducedMotion: "reduce" });
    await openList(page, t.base);
    const moving = await page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running" && Number(a.effect?.getTiming().duration) > 0).length);
    assert.equal(moving, 0);
  }],

  ["a phone of 360 px shows every page without scrolling sideways", async (page, t) => {
    await page.setViewportSize({ width: 360, height: 740 });
    await page.emulateMedia({ colorScheme: "light" });
    const { run } = await richRun(t);
    await openList(page, t.base);
    await noOverflow(page, "the list");
    await t.shot(page, "phone-list");
    await openRun(page, t, run.id);
    await page.waitForSelector("[data-panel] canvas");
    await noOverflow(page, "a run");
    await t.shot(page, "phone-run", true);
    const pair = await batches(t, 1).catch(() => null);
    if (pair !== null) {
      await page.goto(`${t.base}#/compare?a=${pair[0][0].batch}&b=${pair[1][0].batch}`);
      await page.waitForSelector("[data-testid=conclusion]");
      await page.waitForTimeout(400);
      await noOverflow(page, "a comparison");
      await t.shot(page, "phone-compare", true);
    }
    await page.goto(`${t.base}#/devices`);
    await page.waitForSelector("h2 a");
    await noOverflow(page, "devices");
    await page.locator("h2 a").first().click();
    await page.waitForSelector("text=What it is made of");
    await noOverflow(page, "a device");
    await t.shot(page, "phone-device", true);
  }],

  ["a server that is gone is said, what was loaded stays, and the page finds it again", async (page, t) => {
    t.expectFaults(true);
    await openList(page, t.base);
    const rows = await page.locator(LIST).count();
    const stop = (route) => route.abort("connectionrefused");
    await page.route("**/api/**", stop);
    await page.route("**/healthz", stop);
    await page.waitForSelector("[data-testid=gone]", { timeout: 15_000 });
    assert.equal(await page.locator(LIST).count(), rows);
    await t.shot(page, "gone");
    await page.unroute("**/api/**");
    await page.unroute("**/healthz");
    await page.click("text=Retry now");
    await page.waitForSelector("[data-testid=gone]", { state: "detached" });
  }],

  ["a run that does not exist, and an address that names nothing, are told", async (page, t) => {
    t.expectFaults(true);
    await page.goto(`${t.base}#/runs/00000000-0000-7000-8000-000000000000`);
    await page.waitForSelector("text=There is no such run");
    await t.shot(page, "no-such-run");
    await page.goto(`${t.base}#/nowhere`);
    await page.waitForSelector("text=There is no such page");
  }],

  ["a problem of the server is shown with the field at fault", async (page, t) => {
    t.expectFaults(true);
    const problem = { type: "about:blank", title: "Bad Request", status: 400, detail: "state is not usable", errors: [{ field: "state", got: "sideways", want: "running, finished or interrupted" }] };
    await page.route("**/api/v1/runs?*", (route) => route.fulfill({ status: 400, contentType: "application/problem+json", body: JSON.stringify(problem) }));
    await page.goto(`${t.base}#/runs?state=sideways`);
    await page.waitForSelector("text=state is not usable");
    assert.ok((await page.textContent("main")).includes("running, finished or interrupted"));
    await t.shot(page, "problem");
    await page.unroute("**/api/v1/runs?*");
    await page.goto(`${t.base}#/runs?state=finished`);
    await page.waitForSelector(LIST);
  }],

  ["a server that wants a token is asked with one", async (page, t) => {
    t.expectFaults(true);
    await page.route("**/api/**", (route) => {
      if (route.request().headers()["authorization"] === "Bearer open sesame") return route.continue();
      return route.fulfill({ status: 401, headers: { "www-authenticate": "Bearer" }, contentType: "application/problem+json", body: JSON.stringify({ title: "Unauthorized", status: 401, detail: "this needs the server's token" }) });
    });
    await page.goto(`${t.base}#/runs`);
    await page.fill("input[type=password]", "wrong");
    await page.keyboard.press("Enter");
    await page.waitForSelector("text=was not accepted");
    await t.shot(page, "token");
    await page.fill("input[type=password]", "open sesame");
    await page.keyboard.press("Enter");
    await page.waitForSelector(LIST);
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

  ["texts of runs are never taken for markup", async (page, t) => {
    const { runs } = await t.api("runs?text=%3Cb%3E");
    if (!runs[0]?.workload.name.startsWith("<b>")) throw new Skip("no run has such a name (metier run --name '<b>odd</b>' -- true)");
    await openList(page, t.base, "?text=%3Cb%3E");
    assert.equal(await page.locator("main b, main i:not([aria-hidden]), main script").count(), 0);
    await openRun(page, t, runs[0].id);
    assert.equal(await page.locator("h1 b, code i").count(), 0);
    assert.ok((await page.textContent("h1")).includes("<b>"));
  }],
];

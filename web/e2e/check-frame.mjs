// Comparison, devices, and what holds on every page: themes, contrast, phone width, failures.

import assert from "node:assert/strict";
import { lowContrast, nameless } from "./facts.mjs";
import { Skip, LIST, openList, richRun, openRun, batches, noOverflow } from "./store.mjs";

export const FRAME_CHECKS = [
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
      const { authorization, ...headers } = route.request().headers();
      // The server itself needs none from its own user, and would refuse this one.
      if (authorization === "Bearer open sesame") return route.continue({ headers });
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

  ["the page of a server for others loads without the token and asks for it", async (page, t) => {
    if (t.closed.url === "") throw new Skip("METIER_CLOSED_URL is not set (scripts/browser-test sets it)");
    t.expectFaults(true);
    const asked = [];
    page.on("request", (request) => {
      if (request.url().includes("/api/")) asked.push(request.headers()["authorization"] ?? "none");
    });
    const answer = await page.goto(`${t.closed.url}#/runs`);
    assert.equal(answer.status(), 200);
    await page.waitForSelector("input[type=password]");
    await t.shot(page, "token-asked");
    await page.fill("input[type=password]", "a-token-of-another-server");
    await page.keyboard.press("Enter");
    await page.waitForSelector("text=was not accepted");
    await page.fill("input[type=password]", t.closed.token);
    await page.keyboard.press("Enter");
    await page.waitForSelector(LIST);
    assert.deepEqual([...new Set(asked)].sort(), ["Bearer a-token-of-another-server", `Bearer ${t.closed.token}`, "none"].sort());
    asked.length = 0;
    await page.reload();
    await page.waitForSelector(LIST);
    assert.deepEqual([...new Set(asked)], [`Bearer ${t.closed.token}`], "it is kept for the tab");
    assert.ok(!page.url().includes(t.closed.token), "and never in the address");
    await t.shot(page, "token-accepted");
    const other = await t.context.newPage();
    other.setDefaultTimeout(15_000);
    await other.goto(`${t.closed.url}#/runs`);
    await other.waitForSelector("input[type=password]");
    await other.close();
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

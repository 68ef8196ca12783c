// The list of runs: what it shows, filters, pages, keys.

import assert from "node:assert/strict";
import { Skip, LIST, openList, batches } from "./store.mjs";

export const LIST_CHECKS = [
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
];

// Graphs: a real one is given to the page, and what comes back is shown, sorted, and usable with keys and on a narrow screen.

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Skip } from "./store.mjs";

/** A graph of the lab, the one named if it is there. */
function graph(name) {
  const folder = process.env.METIER_LAB_GRAPHS ?? "";
  if (folder === "" || !existsSync(folder)) throw new Skip("METIER_LAB_GRAPHS names no folder with graphs; lab/lab up graphs");
  const files = readdirSync(folder).filter((file) => file.endsWith(".onnx")).sort();
  const file = files.find((one) => one.startsWith(name)) ?? files[0];
  if (file === undefined) throw new Skip(`there is no graph in ${folder}`);
  return join(folder, file);
}

async function opened(page, t, name) {
  await t.api("predictors").catch(() => {
    throw new Skip("the stand-in server reads no graphs");
  });
  await page.goto(`${t.base}#/graphs`);
  await page.locator('input[type="file"]').setInputFiles(graph(name));
  await page.locator('[data-testid="conclusion"]').waitFor({ timeout: 60_000 });
}

export const GRAPH_CHECKS = [
  ["a graph is read, and every device that is known has a time with its interval, or a reason", async (page, t) => {
    await opened(page, t, "light-squeezenet");
    const rows = page.locator("tr[data-device]");
    assert.ok((await rows.count()) >= 15, "stored and shipped passports");
    const text = await page.locator('tr[data-device="raspberry-pi-4b"]').textContent();
    assert.match(text, /Raspberry Pi 4 Model B/);
    assert.match(text, /specified/);
    assert.match(await page.locator('[data-testid="why"]').textContent(), /Why: .+/);
    await t.shot(page, "graphs", true);
  }],
  ["choosing a device tells its operators, sorted by what was asked", async (page, t) => {
    await opened(page, t, "light-squeezenet");
    await page.locator('tr[data-device="raspberry-pi-4b"] button').click();
    await page.locator('tr[data-device="raspberry-pi-4b"].chosen').waitFor();
    await page.getByRole("heading", { name: "Operators on Raspberry Pi 4 Model B" }).waitFor();
    const first = () => page.locator("tr[data-operator]").first().getAttribute("data-operator");
    const byTime = await first();
    await page.getByRole("button", { name: /^#/ }).click();
    assert.equal(await first(), "0");
    assert.notEqual(byTime, "0", "the first operator of this graph is not the costliest");
  }],
  ["runs of the graph stand beside their predictions, each point with its interval and its run", async (page, t) => {
    const { runs } = await t.api("runs?workload=light-squeezenet");
    if (runs.length === 0) throw new Skip("no run of light-squeezenet is in the store");
    await opened(page, t, "light-squeezenet");
    const panel = page.locator('section[aria-labelledby="measured-title"]');
    const points = panel.locator("svg a");
    assert.equal(await points.count(), runs.length, await panel.textContent());
    assert.match(await panel.textContent(), new RegExp(`of ${runs.length} measured runs? `));
    assert.match(await points.first().getAttribute("aria-label"), /rten, \d threads?, .+: measured .+, predicted .+ to /);
    const box = await panel.locator("svg").boundingBox();
    for (const point of await points.all()) {
      const dot = await point.locator("circle").boundingBox();
      assert.ok(dot !== null && box !== null && dot.x >= box.x && dot.x + dot.width <= box.x + box.width && dot.y >= box.y && dot.y + dot.height <= box.y + box.height, "the point is inside of the picture");
    }
    await t.shot(page, "graphs-measured", true);
    // Points of equal times lie on each other; the last one is on top.
    await points.last().click();
    await page.waitForURL(/#\/runs\//);
  }],
  ["a graph that leaves its shapes open asks for them, and answers when they are given", async (page, t) => {
    await opened(page, t, "yolov8n");
    assert.match(await page.locator('[data-testid="conclusion"]').textContent(), /Give the shapes/);
    await page.getByLabel("Shape of images").fill("1x3x320x320");
    await page.keyboard.press("Enter");
    await page.locator("tr[data-device]").first().waitFor();
    assert.match(await page.locator('[data-testid="conclusion"]').textContent(), /One inference on/);
    await t.shot(page, "graphs-shapes", true);
  }],
  ["a file that is no graph is refused in words, and the page goes on", async (page, t) => {
    await opened(page, t, "silero");
    t.expectFaults(true);
    await page.goto(`${t.base}#/graphs`);
    await page.locator('input[type="file"]').setInputFiles({ name: "odd.onnx", mimeType: "application/octet-stream", buffer: Buffer.from("not a graph") });
    await page.locator(".isError").waitFor();
    assert.match(await page.locator("main").textContent(), /not an ONNX/);
    await opened(page, t, "silero");
  }],
  ["graphs fit a narrow screen, in light too", async (page, t) => {
    await page.setViewportSize({ width: 400, height: 800 });
    await page.emulateMedia({ colorScheme: "light" });
    await opened(page, t, "light-squeezenet");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "no sideways scrolling");
    await t.shot(page, "graphs-narrow", true);
  }],
];

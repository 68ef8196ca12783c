// What checks need to know of the store and the page. They find out from the API what there is, so that they hold for
// any store with a few runs.

import assert from "node:assert/strict";

/** The store at hand cannot show this. */
export class Skip extends Error {}

export const LIST = "[data-row]";

export async function openList(page, base, query = "") {
  await page.goto(`${base}#/runs${query}`);
  await page.waitForSelector(LIST);
}

/** A finished run with many samples. */
export async function richRun({ api }) {
  const { runs } = await api("runs?limit=200&state=finished");
  const best = runs.filter((run) => run.exit?.cause === "exited").sort((a, b) => (b.summary.wall_seconds ?? 0) - (a.summary.wall_seconds ?? 0));
  for (const run of best.slice(0, 5)) {
    const { series } = await api(`runs/${run.id}/series?points=4000`);
    const use = series.find((one) => one.name === "use");
    if ((use?.times.length ?? 0) >= 10) return { run, use, series };
  }
  throw new Skip("no finished run has 10 samples");
}

export async function openRun(page, { base }, id) {
  await page.goto(`${base}#/runs/${id}`);
  await page.waitForSelector("[data-testid=verdict]");
}

export const rangeOf = (page) => page.$eval("[data-testid=timeline]", (e) => [Number(e.dataset.from), Number(e.dataset.to)]);
export const plotOf = async (page, key) => (await page.$(`[data-panel="${key}"] .u-over`)).boundingBox();

export async function batches({ api }, least) {
  const { runs } = await api("runs?limit=500&state=finished");
  const by = new Map();
  for (const run of runs) if (run.exit?.cause === "exited" && run.exit.code === 0) by.set(run.batch, [...(by.get(run.batch) ?? []), run]);
  const found = [...by.values()].filter((group) => group.length >= least);
  const first = found.find((group) => found.some((other) => other !== group && other[0].workload.id === group[0].workload.id)) ?? found[0];
  const second = found.find((group) => group !== first && group[0].workload.id === first?.[0].workload.id) ?? found.find((group) => group !== first);
  if (first === undefined || second === undefined) throw new Skip(`there are no two batches of ${least} good runs`);
  return [first, second];
}

export async function noOverflow(page, what) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(over <= 0, `${what} is ${over} px too wide`);
}

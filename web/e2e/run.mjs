// Drives the page in a real Chromium and checks what it does; saves screenshots.
//
//   METIER_URL=http://127.0.0.1:7001/ node e2e/run.mjs [FOLDER FOR SCREENSHOTS]
//
// METIER_CLOSED_URL and METIER_CLOSED_TOKEN are those of a server on an address for others.
// METIER_URL is a running `metier up` with some runs in its store; without it the stand-in server of dev/ is used,
// and that is said. METIER_LAB_CHROMIUM names the browser (else /usr/bin/chromium). What a store cannot show
// (no run under way, no batches) is skipped loudly. Ends with 1 if a check failed.

import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { startServer } from "../dev/server.mjs";
import { FRAME_CHECKS } from "./check-frame.mjs";
import { GRAPH_CHECKS } from "./check-graphs.mjs";
import { LIST_CHECKS } from "./check-list.mjs";
import { POWER_CHECKS } from "./check-power.mjs";
import { QUEUE_CHECKS } from "./check-queue.mjs";
import { RUN_CHECKS } from "./check-run.mjs";
import { Skip } from "./store.mjs";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const executablePath = process.env.METIER_LAB_CHROMIUM || "/usr/bin/chromium";
if (!existsSync(executablePath)) {
  console.error(`SKIP: the page in a browser, because there is no ${executablePath}; set METIER_LAB_CHROMIUM or run lab/lab up chromium`);
  process.exit(0);
}

const shots = process.argv[2] ?? mkdtempSync(join(tmpdir(), "metier-shots-"));
mkdirSync(shots, { recursive: true });
const profile = mkdtempSync(join(tmpdir(), "metier-e2e-"));

let standIn = null;
let base = process.env.METIER_URL ?? "";
if (base === "") {
  standIn = await startServer();
  base = standIn.url;
  console.error("NOTE: METIER_URL is not set; checking the page with the stand-in server of dev/, not with metier up");
}
if (!base.endsWith("/")) base += "/";
// Another server, on an address for others: its page asks for the token.
const closed = { url: process.env.METIER_CLOSED_URL ?? "", token: process.env.METIER_CLOSED_TOKEN ?? "" };

const context = await chromium.launchPersistentContext(profile, { executablePath, args: FLAGS, viewport: { width: 1440, height: 1000 }, colorScheme: "dark" });
const failures = [];
const faults = [];
let isExpectingFaults = false;
context.on("page", watch);

function watch(page) {
  page.on("pageerror", (error) => faults.push(`page error: ${error.message}`));
  page.on("console", (message) => {
    // A run without a process tree is an ordinary 404, which the browser logs.
    const isOrdinary = isExpectingFaults || message.location().url.endsWith("/processes");
    if (message.type() === "error" && !isOrdinary) faults.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const isOwn = [base, closed.url].some((own) => own !== "" && request.url().startsWith(own));
    if (!isOwn && !request.url().startsWith("about:")) faults.push(`request to another origin: ${request.url()}`);
  });
}

async function api(path) {
  const response = await fetch(`${base}api/v1/${path}`);
  if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

const tools = {
  base,
  closed,
  api,
  context,
  /** Failed requests are part of what is checked; the browser logs them as errors. */
  expectFaults: (is) => (isExpectingFaults = is),
  shot: async (page, name, fullPage = false) => {
    await page.waitForTimeout(150);
    await page.screenshot({ path: join(shots, `${name}.png`), fullPage });
  },
};

let passed = 0;
let skipped = 0;
for (const [name, check] of [...LIST_CHECKS, ...RUN_CHECKS, ...QUEUE_CHECKS, ...GRAPH_CHECKS, ...POWER_CHECKS, ...FRAME_CHECKS]) {
  faults.length = 0;
  isExpectingFaults = false;
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  try {
    await page.emulateMedia({ colorScheme: "dark", reducedMotion: "no-preference" });
    await check(page, tools);
    if (faults.length > 0) throw new Error(faults.join("\n"));
    passed += 1;
    console.log(`ok    ${name}`);
  } catch (error) {
    if (error instanceof Skip) {
      skipped += 1;
      console.error(`SKIP: ${name}, because ${error.message}`);
    } else {
      failures.push(name);
      console.error(`FAIL  ${name}\n${String(error.stack ?? error).replace(/^/gm, "      ")}`);
      await page.screenshot({ path: join(shots, `failed-${failures.length}.png`) }).catch(() => undefined);
    }
  } finally {
    await page.close();
  }
}

await context.close();
await standIn?.stop();
rmSync(profile, { recursive: true, force: true });
console.log(`${passed} passed, ${skipped} skipped, ${failures.length} failed; screenshots in ${shots}`);
process.exit(failures.length > 0 ? 1 : 0);

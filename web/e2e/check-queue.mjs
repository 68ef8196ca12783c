// The queue: what was asked for is shown, and can be cancelled from the page.

import assert from "node:assert/strict";

const ROW = "tr[data-session]";

export const QUEUE_CHECKS = [
  ["the queue shows what was asked for, and a session that waits or runs can be cancelled", async (page, t) => {
    // A run file that goes on until it is cancelled.
    const asked = await fetch(`${t.base}api/v1/sessions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: "from the browser's check", command: ["sleep", "600"] }),
    });
    assert.equal(asked.status, 202, await asked.clone().text());
    const session = await asked.json();
    await page.goto(`${t.base}#/queue`);
    await page.waitForSelector(ROW);
    const row = page.locator(`${ROW}[data-session="${session.number}"]`);
    assert.ok((await row.textContent()).includes("from the browser's check"));
    await t.shot(page, "queue");
    await row.locator("button").click();
    await row.locator("text=cancelled").first().waitFor();
    assert.equal((await t.api(`sessions/${session.id}`)).state, "cancelled");
    assert.equal(await row.locator("button").count(), 0, "what is over cannot be cancelled");
  }],
];

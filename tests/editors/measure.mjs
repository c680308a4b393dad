// The numbers that the panel shows of a conversation: node measure.mjs URL compact|undo. Prints them as JSON.
import assert from "node:assert/strict";
import { picture, withPage } from "./browser.mjs";

const [url, act] = process.argv.slice(2);
const found = {};

await withPage({ viewport: { width: 1100, height: 800 } }, async (page) => {
  const text = async (selector) => (await page.locator(selector).last().innerText()).replaceAll("−", "-");
  /** The context as its dialog has it, and the gauge. */
  const context = async () => {
    await page.click(".gauge");
    await page.waitForSelector("dialog tbody");
    const parts = await page.locator("dialog tbody").first().locator("tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
    const read = { total: await text("dialog .dialog-body > p:first-child"), due: await text("dialog .due"), parts };
    await picture(page, `context-${act}`);
    await page.keyboard.press("Escape");
    return { ...read, gauge: await page.getAttribute(".gauge", "aria-label") };
  };
  await page.goto(url);
  await page.click(".recent");
  await page.waitForSelector(".row.answer");
  found.before = await context();
  if (act === "compact") {
    await page.click("[aria-label='Preview a compaction']");
    await page.waitForSelector(".plan .sizes");
    found.preview = { sizes: await page.getAttribute(".plan .sizes", "aria-label"), facts: await text(".plan .facts") };
    await page.click(".plan .button:has-text('Compact')");
    await page.waitForSelector(".compaction.completed");
    found.card = { sizes: await page.getAttribute(".compaction.completed .sizes", "aria-label"), facts: await text(".compaction.completed .facts") };
  } else {
    await page.click(".compaction.completed .button:has-text('Undo')");
    await page.waitForSelector(".compaction.undone");
    assert.equal(await page.locator(".compaction.undone .sizes").count(), 0, "a card that is undone has no size after it");
  }
  await page.waitForTimeout(0);
  found.after = await context();
});
console.log(JSON.stringify(found));

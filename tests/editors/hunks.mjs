// Parts of a proposed change, refused and edited by the keyboard on a narrow, dark page: node hunks.mjs URL PROJECT.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkAccess, picture, prompt, withPage } from "./browser.mjs";

const [url, project] = process.argv.slice(2);

await withPage({ viewport: { width: 300, height: 760 }, colorScheme: "dark" }, async (page) => {
  await page.goto(url);
  await prompt(page, "/model fake-1");
  await page.waitForSelector(".row.answer >> text=fake-1");
  await prompt(page, "shout");
  await page.waitForSelector(".permission .hunk-bar >> nth=2");
  const bar = (part) => page.locator(".hunk-bar", { hasText: `part ${part} of 3` });
  await bar(2).locator("input").focus();
  await page.keyboard.press("Space");
  await page.waitForSelector(".diff-line.refused >> text=THREE");
  await bar(3).locator("button").focus();
  await page.keyboard.press("Enter");
  const lines = page.locator(".hunk-text");
  assert.equal(await lines.inputValue(), "FIVE\n");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("yes, five!", { delay: 20 });
  await checkAccess(page, "a question about parts");
  await picture(page, "hunks");
  await page.locator(".permission .button.primary").focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector(".row.answer >> text=I have shouted.");
  assert.equal(readFileSync(join(project, "words.txt"), "utf8"), "ONE\ntwo\nthree\nfour\nyes, five!\n");
  await page.click(".row.tool >> text=Edit words.txt");
});
console.log("{}");

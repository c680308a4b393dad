// Blocks of a proposed new file, refused and edited by the keyboard on a narrow, dark page: node hunks.mjs URL PROJECT.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkAccess, picture, prompt, withPage } from "./browser.mjs";

const [url, project] = process.argv.slice(2);

await withPage({ viewport: { width: 300, height: 760 }, colorScheme: "dark" }, async (page) => {
  await page.goto(url);
  // A new file: a block of it is refused, the other edited; what is written shows in its call.
  await prompt(page, "/model makes-1");
  await page.waitForSelector(".row.answer >> text=makes-1");
  await prompt(page, "make a file");
  await page.waitForSelector(".permission >> text=Write new.py");
  const block = (part) => page.locator(".hunk-bar", { hasText: `part ${part} of 2` });
  await block(1).locator("input").focus();
  await page.keyboard.press("Space");
  await page.waitForSelector(".diff-line.refused >> text=import os");
  await block(2).locator("button").focus();
  await page.keyboard.press("Enter");
  const lines = page.locator(".hunk-text");
  assert.equal(await lines.inputValue(), "def one():\n    return 1\n\n\ndef two():\n    return 2\n");
  assert.equal(await page.locator(".diff-line:visible", { hasText: "def two" }).count(), 0, "the lines are in the box alone");
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\n\nthree = 3");
  await checkAccess(page, "a question about a new file");
  await picture(page, "new-file");
  await page.locator(".permission .button.primary").focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector(".row.answer >> text=It is new.");
  assert.equal(readFileSync(join(project, "new.py"), "utf8"), "def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\nthree = 3\n");
});
console.log("{}");

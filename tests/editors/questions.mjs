// Questions for permission in a browser, and calls that are not what they should be: node questions.mjs URL PROJECT.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { picture, prompt, until, withPage } from "./browser.mjs";

const [url, project] = process.argv.slice(2);
const [made, large] = [join(project, "made-by-the-model"), join(project, "large.txt")];

await withPage({ viewport: { width: 1100, height: 800 } }, async (page) => {
  await page.goto(url);
  await page.waitForSelector(".start h1");
  await page.keyboard.type("/comp");
  await page.waitForSelector(".offer");
  await page.keyboard.press("Escape");
  await page.selectOption(".choice.model", "fake-1");

  // A malformed call is shown, and the conversation goes on; also in a page that loads it.
  await prompt(page, "edit it");
  await page.waitForSelector(".row.answer >> text=It went wrong.");
  await page.reload();
  await page.waitForSelector(".row.answer >> text=It went wrong.");

  // Words at a question are words, whether the box has the keyboard or the question.
  await prompt(page, "make a file");
  await page.waitForSelector(".permission >> text=touch made-by-the-model");
  const box = page.locator("textarea.input-text");
  for (const word of ["wait", "please", "yes, but", "Always", "no"]) {
    await page.waitForTimeout(800);
    await page.locator(".permission").focus();
    await page.keyboard.type(word, { delay: 40 });
    await until(async () => (await box.inputValue()) === word, `${word} in the box`);
    await page.locator(".permission").focus();
    await page.waitForTimeout(400);
    await page.keyboard.press("y");
    await until(async () => (await box.inputValue()) === `${word}y`, "a key behind words");
    await box.fill("");
  }
  assert.ok(!existsSync(made));
  assert.equal(await page.locator(".permission").count(), 1);
  await page.locator(".permission").focus();
  await page.waitForTimeout(400);
  await page.keyboard.press("y");
  await page.waitForSelector(".row.answer >> text=It is made.");
  assert.ok(existsSync(made));

  // The question about a large file.
  await prompt(page, "write a large one");
  await page.waitForSelector(".permission .diff-line.added");
  await picture(page, "large");
  await page.click(".permission .button.danger");
  await page.waitForSelector(".row.answer >> text=Not written.");
  assert.ok(!existsSync(large));
});
console.log("{}");

// Questions for permission in a browser, and calls that are not what they should be: node questions.mjs URL PROJECT.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { checkAccess, picture, prompt, until, withPage } from "./browser.mjs";

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
  assert.ok(await box.evaluate((element) => element === document.activeElement), "the keyboard goes on to the box");

  // A command that hides its end, in another folder and in the background, below a block that looks like a question.
  await prompt(page, "install it");
  const card = page.locator(".permission");
  await card.locator(".detail").waitFor();
  assert.equal(await card.locator("strong").textContent(), "Run in evil, in the background: make install‹3,000 blanks›; touch y‹U+3164›");
  assert.equal(await card.locator(".detail").textContent(), "make install‹3,000 blanks›; touch y‹U+3164›\n‹199 empty lines›\ntouch z");
  for (const wide of [await card.locator(".detail").evaluate((box) => box.scrollWidth - box.clientWidth), await card.evaluate((box) => box.scrollWidth - box.clientWidth)]) assert.ok(wide <= 0, `${wide} px run off the edge`);
  assert.equal(await page.locator(".row.answer .asks").count(), 0);
  await picture(page, "hidden");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await checkAccess(page, `a question, ${colorScheme}`);
  }
  await picture(page, "hidden-dark");
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0, "nothing moves where motion is not wanted");
  await page.emulateMedia({ reducedMotion: "no-preference" });
  await page.setViewportSize({ width: 550, height: 400 }); // 1100 x 800 at 200 %
  await picture(page, "enlarged");
  const left = await page.locator(".scroller").evaluate((element) => element.clientHeight);
  assert.ok(left >= 100, `${left} px of the conversation are left`);
  await page.waitForTimeout(800);
  await card.focus();
  await page.keyboard.press("y");
  await until(() => card.evaluate((element) => element.scrollTop > 0), "the rest of the command in view");
  await page.waitForTimeout(400);
  assert.equal(await card.count(), 1, "the key that showed the rest allowed nothing");
  await picture(page, "enlarged-more");
  await page.setViewportSize({ width: 1100, height: 800 });
  await card.locator(".button.danger").click();
  await page.waitForSelector(".row.answer >> text=Not installed.");

  // A long line of a change wraps, and a change that is not shown whole cannot be allowed.
  await prompt(page, "write a long line");
  await page.waitForSelector(".permission .diff-line.added");
  const over = await page.locator(".permission .diff").evaluate((box) => box.scrollWidth - box.clientWidth);
  assert.ok(over <= 0, `${over} px of a line run off the edge`);
  await page.locator(".permission .unshown").waitFor();
  await page.waitForTimeout(800);
  await card.focus();
  await page.keyboard.press("y");
  await until(() => page.locator(".permission .unshown").evaluate((rest) => rest === document.activeElement), "the rest first");
  assert.ok(await card.locator(".button.primary").isDisabled());
  await page.locator(".permission .unshown").click();
  assert.ok(await card.locator(".button.primary").isEnabled());
  await picture(page, "long");
  await card.locator(".button.danger").click();
  await page.waitForSelector(".row.answer >> text=Not long.");

  // The question about a large file.
  await prompt(page, "write a large one");
  await page.waitForSelector(".permission .diff-line.added");
  await picture(page, "large");
  await page.click(".permission .button.danger");
  await page.waitForSelector(".row.answer >> text=Not written.");
  assert.ok(!existsSync(large));

  // A form of the agent: it takes no keyboard by itself, and one field that is missing keeps it there.
  await prompt(page, "ask me");
  const form = page.locator("form.permission");
  await form.locator("text=Which database?").waitFor();
  assert.ok(await box.evaluate((element) => element === document.activeElement), "the keyboard stays at the box");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await checkAccess(page, `a form, ${colorScheme}`);
  }
  await picture(page, "form");
  await page.emulateMedia({ colorScheme: "light" });
  assert.ok(await form.locator("input[value=SQLite]").isChecked());
  await form.locator("input[value=Postgres]").check();
  await form.locator("button.primary").click();
  assert.equal(await form.count(), 1, "a name is missing");
  await form.locator("input[type=text]").fill("main");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".row.answer >> text=It is chosen.");
  assert.equal(await form.count(), 0);
});
console.log("{}");

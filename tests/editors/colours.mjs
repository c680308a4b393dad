// Code and changes in colour, on a light and a dark page: node colours.mjs URL.
import assert from "node:assert/strict";
import { checkAccess, picture, prompt, withPage } from "./browser.mjs";

for (const colorScheme of ["light", "dark"]) {
  await withPage({ viewport: { width: 900, height: 800 }, colorScheme }, async (page) => {
    await page.goto(process.argv[2]);
    await prompt(page, "/model fake-1");
    await page.waitForSelector(".row.answer >> text=fake-1");
    await prompt(page, "show me");
    await page.waitForSelector(".code-block .code-keyword >> text=def");
    assert.equal(await page.locator(".code-block code").innerText(), 'def one():  # the first\n    return [1, "one"]');
    await page.waitForSelector(".permission .diff-line.added .code-keyword >> text=class");
    await checkAccess(page, `code, ${colorScheme}`);
    await picture(page, colorScheme);
    await page.click(".permission .button.danger");
    await page.waitForSelector(".row.answer >> text=Not written.");
  });
}
console.log("{}");

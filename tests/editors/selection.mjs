// The selection in a real VS Code, asked about and changed: node selection.mjs FOLDER PROJECT SETTINGS.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { picture, until, withPage } from "./browser.mjs";
import { findPanel, openFile, runCommand, startEditor } from "./code_server.mjs";

const [folder, project, settings] = process.argv.slice(2);
const { server, address } = await startEditor(folder, project, settings);
const written = () => readFileSync(join(project, "words.txt"), "utf8");

try {
  await withPage({ viewport: { width: 1300, height: 850 } }, async (page) => {
    await page.goto(`${address}/?folder=${project}`);
    await page.locator('.activitybar [aria-label*="Sidecar"]').first().waitFor();
    await openFile(page, "words.txt");
    await page.keyboard.type("zero, unsaved\n");
    const select = async () => {
      await page.keyboard.press("Control+Home");
      await page.keyboard.press("ArrowDown");
      for (let line = 0; line < 4; line++) await page.keyboard.press("Shift+ArrowDown");
    };

    // A change that goes beyond the lines, with the panel not yet opened; one part is refused, one edited.
    await select();
    await page.keyboard.press("Control+Alt+K");
    await page.waitForSelector(".quick-input-title >> text=Change lines 2 to 5 of words.txt");
    await page.keyboard.type("shout");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".tab.active >> text=which goes beyond the selection");
    const proposed = page.locator(".monaco-diff-editor .editor.modified");
    await proposed.locator(".view-line", { hasText: "FIVE" }).waitFor();
    await page.locator(".monaco-diff-editor .editor.original .view-line", { hasText: "zero, unsaved" }).waitFor();
    await picture(page, "1-proposed");
    await runCommand(page, "Refuse This Part of the Change");
    await proposed.locator(".view-line", { hasText: /^one$/ }).waitFor();
    await page.keyboard.press("Control+End");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("End");
    await page.keyboard.type(", yes");
    await proposed.locator(".view-line", { hasText: /FIVE,.yes/ }).waitFor();
    await picture(page, "2-edited");
    await page.keyboard.press("Control+Alt+Enter");
    await page.locator(".monaco-diff-editor").waitFor({ state: "detached" });
    const shown = () => page.locator(".monaco-editor .view-line").allInnerTexts();
    await until(async () => (await shown()).map((line) => line.replaceAll("\u00a0", " ")).join("|").startsWith("zero, unsaved|one|two|THREE|four|FIVE, yes"), "the change in the editor");
    assert.equal(written(), "one\ntwo\nthree\nfour\nfive\n", "it is for the user to save");
    const panel = await findPanel(page);
    await panel.waitForSelector(".row.answer >> text=I have shouted.");
    await panel.waitForSelector('.row.user >> text=@"words.txt:2-5"');
    assert.equal(await panel.locator(".permission").count(), 0);

    // A question is answered in the panel.
    await page.locator(".monaco-editor .view-line").first().click();
    await select();
    await runCommand(page, "Ask About the Selection");
    await page.waitForSelector(".quick-input-title >> text=Ask about lines 2 to 5 of words.txt");
    await page.keyboard.type("what is it?");
    await page.keyboard.press("Enter");
    await panel.waitForSelector(".row.answer >> text=It is a number.");
    await picture(page, "3-asked");

    // A refusal leaves the file as it is.
    await page.locator(".monaco-editor .view-line").first().click();
    await runCommand(page, "Change the Selection");
    await page.waitForSelector(".quick-input-title >> text=Change line 1 of words.txt");
    await page.keyboard.type("calm down");
    await page.keyboard.press("Enter");
    await proposed.locator(".view-line", { hasText: "nothing" }).waitFor();
    await runCommand(page, "Refuse the Proposed Change");
    await page.locator(".monaco-diff-editor").waitFor({ state: "detached" });
    await panel.waitForSelector(".row.answer >> text=As you like.");
    assert.match((await shown())[0], /^zero/);
  });
} finally {
  server.kill();
}
console.log("{}");

// A day with the packed extension in a real VS Code: node vscode.mjs FOLDER PROJECT SETTINGS. Prints what it measured.
// FOLDER is empty; SETTINGS is the JSON of the editor's settings.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { picture, prompt, until, withPage } from "./browser.mjs";
import { findPanel, openFile, startEditor } from "./code_server.mjs";

const [folder, project, settings] = process.argv.slice(2);
const { PID_FILE } = process.env;
const file = join(project, "a.py");
const { server, address } = await startEditor(folder, project, settings);

const begun = Date.now();
const measured = {};

try {
  await withPage({ viewport: { width: 1300, height: 850 } }, async (page) => {
    await page.goto(`${address}/?folder=${project}`);
    await page.locator('.activitybar [aria-label*="Sidecar"]').first().click();
    const panel = await findPanel(page);
    await panel.waitForSelector(".start h1");
    measured.startMs = Date.now() - begun;
    await picture(page, "1-start");

    // A file with an edit that is not saved, which the model sees; and the selection as a chip.
    await openFile(page, "a.py");
    await page.keyboard.type("unsaved = 1\n");
    await page.keyboard.press("Control+Home");
    await page.keyboard.press("Shift+ArrowDown");
    await panel.waitForSelector(".chip >> text=a.py:1-2");

    await prompt(panel, "what is in @a.py?");
    await panel.waitForSelector(".row.answer li >> text=reason 39");
    const read = panel.locator(".row.tool", { hasText: "Read a.py" }).first();
    await read.evaluate((row) => row.closest("details").setAttribute("open", ""));
    await read.locator("pre", { hasText: "unsaved = 1" }).waitFor();
    measured.firstAnswerMs = Date.now() - begun;
    await picture(page, "2-answer");

    // A change of the file that is open and not saved: a diff in the panel and in the editor, the status bar, the consent.
    await prompt(panel, "make it 43");
    await panel.waitForSelector(".permission .diff-line.added >> text=answer = 43");
    await page.waitForSelector(".statusbar-item >> text=Edit a.py");
    await page.waitForSelector(".statusbar-item >> text=waiting for you");
    await picture(page, "3-question");
    await panel.click(".permission .button.primary");
    await panel.waitForSelector(".row.answer >> text=It is 43 now.");
    await page.locator(".view-line", { hasText: "answer = 43" }).first().waitFor();
    await until(async () => (await page.locator(".statusbar-item", { hasText: "Edit a.py" }).count()) === 0, "the status bar without the question");
    await until(async () => (await page.locator(".statusbar-item", { hasText: "waiting for you" }).count()) === 0, "the status bar at rest");
    await picture(page, "4-changed");

    // While it works: what is queued waits and can be taken away, what steers goes into the running turn.
    await prompt(panel, "make a file");
    await panel.waitForSelector(".permission >> text=touch made-by-the-model");
    await prompt(panel, "and then a walk");
    await panel.waitForSelector(".queued >> text=and then a walk");
    await panel.fill("textarea.input-text", "be quick");
    await panel.waitForSelector(".hint >> text=Ctrl+Enter steers");
    await panel.press("textarea.input-text", "Control+Enter");
    await picture(page, "5-queued");
    await panel.click(".queued [aria-label='Remove it']");
    await until(async () => (await panel.locator(".queued >> text=and then a walk").count()) === 0, "the queue without it");
    await panel.click(".permission .button.danger");
    await panel.waitForSelector(".row.user >> text=be quick");
    await panel.waitForSelector(".row.answer >> text=I was quick.");
    assert.equal(await panel.locator(".row.user >> text=and then a walk").count(), 0);

    // A compaction with its preview; the file comes back with the unsaved text; the comparison; undo.
    await panel.click("[aria-label='Preview a compaction']");
    await panel.waitForSelector(".plan .chip >> text=a.py");
    await picture(page, "7-preview");
    await panel.click(".plan .button.primary");
    await panel.waitForSelector(".compaction.completed .chip >> text=a.py");
    await picture(page, "8-compacted");
    await panel.click(".compaction .button:has-text('Compare')");
    await page.waitForSelector(".monaco-diff-editor");
    await page.waitForSelector(".view-line >> text=unsaved = 1");
    await picture(page, "9-compared");
    await panel.click(".compaction .button:has-text('Undo')");
    await panel.waitForSelector(".compaction.undone");

    // Back to a checkpoint of the file, which is still not saved; and to before a prompt, which is then in the box.
    await page.locator(".tab", { hasText: "a.py" }).first().click();
    await until(async () => (await panel.locator(".mark.checkpoint").count()) > 0, "a mark of the checkpoint");
    await panel.locator(".mark.checkpoint").first().focus();
    await panel.waitForSelector(".tip:not([hidden]) >> text=a.py");
    await panel.press(".mark.checkpoint:focus", "Enter");
    await panel.waitForSelector("dialog .diff-line.removed");
    await picture(page, "10-checkpoint");
    await panel.click("dialog >> text=Take the files back");
    await page.locator(".view-line", { hasText: "answer = 42" }).first().waitFor();
    await page.locator(".view-line", { hasText: "unsaved = 1" }).first().waitFor();
    const row = panel.locator(".row.user", { hasText: "make a file" });
    await row.hover();
    await row.locator("[aria-label='Go back to before this prompt']").click();
    await panel.click("dialog .buttons .button:has-text('Go back')");
    await until(async () => (await panel.inputValue("textarea.input-text")) === "make a file", "the prompt in the box");
    assert.equal(await panel.locator(".row.user >> text=make a file").count(), 0);
    await panel.fill("textarea.input-text", "");

    // The daemon dies. Another one goes on with the conversation, and the panel says why.
    process.kill(Number(readFileSync(PID_FILE, "utf8")), "SIGKILL");
    await panel.waitForSelector(".banner >> text=SIGKILL");
    await panel.waitForSelector(".banner >> text=goes on");
    await panel.waitForSelector(".row.user >> text=make it 43");
    await picture(page, "11-again");
    await prompt(panel, "and now?");
    await panel.waitForSelector(".row.user >> text=and now?");
    await panel.waitForSelector("[aria-label^=Stop]", { state: "hidden" });
    await panel.waitForFunction(() => /reason 39\s*$/.test([...document.querySelectorAll(".rows > .row.answer")].at(-1)?.innerText.trimEnd() ?? ""));

    // A conversation of another agent, and the way back to this one.
    await panel.click("button[aria-label=Conversations]");
    await panel.click(".drawer >> text=Of other agents");
    await panel.click(".session >> text=a question of before");
    await panel.waitForSelector("dialog >> text=claude-code");
    await picture(page, "12-imported");
    await panel.press("dialog", "Escape");
    await panel.waitForSelector(".row.answer >> text=an answer of before");
    await panel.click("button[aria-label=Conversations]");
    await panel.click(".drawer >> text=Stored here");
    await panel.click(".session >> text=what is in @a.py?");
    await panel.waitForSelector(".row.answer li >> text=reason 39");
    await panel.click("button[aria-label='Close the list']").catch(() => {});

    // The model asks a language extension of the editor, and lets it rename something in a file that nobody has open.
    await panel.click("button[aria-label=Conversations]");
    await panel.click(".drawer-head [aria-label='New conversation']");
    await prompt(panel, "/model styling");
    await prompt(panel, "which colour?");
    await panel.waitForSelector(".permission .diff-line.added >> text=--accent");
    await picture(page, "13-rename");
    await panel.click(".permission .button.primary");
    await panel.waitForSelector(".row.answer >> text=I have seen the styles.");
    await panel.locator(".row.tool").evaluateAll((rows) => rows.forEach((row) => row.closest("details").setAttribute("open", "")));
    await panel.waitForSelector(".row.tool .diff-line.added >> text=a { color: var(--accent); }");
    measured.asked = await panel.locator(".row.tool pre.output").allTextContents();

    // The agent asks: one choice, then a form of three fields.
    await prompt(panel, "/model asks-1");
    await prompt(panel, "ask me");
    await panel.check("form.permission input[value=SQLite]");
    await panel.click("form.permission button[type=submit]");
    await panel.waitForSelector("form.permission >> text=3 questions");
    await picture(page, "13b-form");
    await panel.check("form.permission input[value=Postgres]");
    await panel.click("form.permission button[type=submit]");
    await panel.waitForSelector(".row.answer >> text=So be it.");
    await panel.click("button[aria-label=Conversations]");
    await panel.click(".session >> text=what is in @a.py?");
    await panel.waitForSelector(".row.answer li >> text=reason 39");
    await panel.click("button[aria-label='Close the list']").catch(() => {});

    // The restart of the editor's window: the conversation is there again.
    await page.reload();
    const again = await findPanel(page);
    await again.waitForSelector(".title >> text=what is in @a.py?");
    await again.waitForSelector(".row.answer li >> text=reason 39");
    await picture(page, "14-reloaded");

    // The other themes: what the editor gives no colour for follows the theme, not the system.
    mkdirSync(join(project, ".vscode"), { recursive: true });
    for (const [theme, body, name] of [["Default Dark Modern", "vscode-dark", "15-dark"], ["Default High Contrast", "vscode-high-contrast", "16-high-contrast"], ["Default High Contrast Light", "vscode-high-contrast-light", "17-high-contrast-light"]]) {
      writeFileSync(join(project, ".vscode", "settings.json"), JSON.stringify({ "workbench.colorTheme": theme }));
      await again.waitForSelector(`body.${body}`);
      await again.locator(".mark.turn").nth(1).press("Enter");
      await again.waitForSelector(".diff-line.added >> text=answer = 43");
      await picture(page, name);
    }
  });
} finally {
  server.kill();
}
assert.match(readFileSync(file, "utf8"), /^(unsaved = 1\n)?answer = 4[23]/);
console.log(JSON.stringify(measured));

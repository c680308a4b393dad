// The ten steps of day.py by the keyboard alone, at 300 pixels and dark, in the browser or in VS Code's view:
// node keyboard_day.mjs browser URL PROJECT PID, or node keyboard_day.mjs vscode FOLDER PROJECT SETTINGS.
// axe looks at the panel in each step. Prints the steps that were lived.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkAccess, picture, until, withPage } from "./browser.mjs";
import { findPanel, startEditor } from "./code_server.mjs";

const [face, place, project, last] = process.argv.slice(2);
const isEditor = face === "vscode";
const STEPS = JSON.parse(process.env.DAY);
const read = (name) => readFileSync(join(project, name), "utf8");
const lived = [];

async function live(page, panel) {
  const step = async (name) => {
    assert.ok(STEPS.includes(name) && !lived.includes(name), name);
    await checkAccess(page, `before ${name}`, panel);
    lived.push(name);
  };
  /** Put the keyboard on an element that Tab reaches, and press a key there. */
  const press = async (selector, key = "Enter") => {
    const element = typeof selector === "string" ? panel.locator(selector).last() : selector;
    await element.waitFor();
    assert.ok(await element.evaluate((each) => each.tabIndex >= 0 && !each.disabled), `Tab reaches ${selector}`);
    await element.focus();
    await page.keyboard.press(key);
  };
  const seen = (selector) => panel.waitForSelector(selector);
  const write = async (text, key = "Enter") => {
    await panel.locator("textarea.input-text").focus();
    await page.keyboard.type(text);
    await page.keyboard.press(key);
  };
  const choose = async (model) => {
    await write(`/model ${model}`);
    await seen(`.row.answer >> text=Model: ${model}`);
  };
  const keep = (name) => picture(page, `${lived.length}-${name}`);

  await choose("fake-1");
  assert.ok((await panel.evaluate(() => innerWidth)) <= 300, `${await panel.evaluate(() => innerWidth)} pixels`);

  await step("answer");
  await write("what is in a.py?");
  await seen(".row.answer li >> text=reason 39");
  await keep("answer");

  await step("allow");
  await write("make it 43");
  await seen(".permission .diff-line.added >> text=answer = 43");
  await keep("allow");
  await press(".permission .button.primary");
  await seen(".row.answer >> text=It is 43 now.");
  assert.match(read("a.py"), /^answer = 43/);

  await step("steer");
  await write("make a file");
  await seen(".permission >> text=touch made-by-the-model");
  await write("be quick", "Control+Enter");
  await until(async () => (await panel.locator(".status").innerText()) === "Waiting for you", "the status of a turn that waits");
  await keep("steer");
  await press(".permission .button.danger");
  await seen(".row.user >> text=be quick");
  await seen(".row.answer >> text=I was quick.");
  assert.ok(!existsSync(join(project, "made-by-the-model")));

  await step("compact");
  await press("[aria-label='Preview a compaction']");
  await seen(".plan .sizes");
  await keep("preview");
  await press(".plan .button:has-text('Compact')");
  await seen(".compaction.completed .sizes");
  await keep("compact");

  await step("undo");
  await press(".compaction.completed .button:has-text('Undo')");
  await seen(".compaction.undone");

  await step("rewind");
  await press(panel.locator(".row.user", { hasText: "make it 43" }).locator("[aria-label='Go back to before this prompt']"));
  await press("dialog summary");
  await seen("dialog .diff-line.removed");
  await checkAccess(page, "going back", panel);
  await keep("rewind");
  await press("dialog .button:has-text('Go back, restore the files')");
  await until(async () => (await panel.inputValue("textarea.input-text")) === "make it 43", "the prompt in the box");
  assert.match(read("a.py"), /^answer = 42/);

  await panel.locator("textarea.input-text").focus();
  for (const key of ["Control+End", "Control+Shift+Home", "Delete"]) await page.keyboard.press(key);
  assert.equal(await panel.inputValue("textarea.input-text"), "");

  await step("parts");
  await choose("shouts-1");
  await write("shout");
  await seen(".permission .hunk-bar >> nth=2");
  const bar = (part) => panel.locator(".hunk-bar", { hasText: `part ${part} of 3` });
  await press(bar(2).locator("input"), "Space");
  await seen(".diff-line.refused >> text=THREE");
  await press(bar(3).locator("button"));
  assert.equal(await panel.locator(".hunk-text").inputValue(), "FIVE\n");
  for (const key of ["Control+End", "Control+Shift+Home"]) await page.keyboard.press(key);
  await page.keyboard.type("yes, five!", { delay: 20 });
  await keep("parts");
  await checkAccess(page, "a question about parts", panel);
  await press(".permission .button.primary");
  await seen(".row.answer >> text=I have shouted.");
  assert.equal(read("words.txt"), "ONE\ntwo\nthree\nfour\nyes, five!\n");

  await step("kill");
  process.kill(isEditor ? Number(readFileSync(process.env.PID_FILE, "utf8")) : Number(last), "SIGKILL");
  await seen(".banner >> text=goes on");
  await keep("kill");
  if (!isEditor) await choose("offline-1"); // the scripted one was an option of the daemon that died
  await write("where is answer = 42 in a.py?");
  await seen(isEditor ? ".row.answer >> text=I have shouted." : ".row.answer >> text=a.py:1");

  await step("import");
  await press("button[aria-label=Conversations]");
  await press(".drawer .button:has-text('Of other agents')");
  await checkAccess(page, "the conversations", panel);
  await keep("list");
  await press(".session-open:has-text('a question of before')");
  await seen("dialog >> text=claude-code");
  await page.keyboard.press("Escape");
  await seen(".row.answer >> text=an answer of before");
  await keep("import");

  await step("resume");
  await press("button[aria-label=Conversations]");
  await press(".drawer .button:has-text('Stored here')");
  await press(".session-open:has-text('what is in a.py?')");
  await seen(".title >> text=what is in a.py?");
  await seen(".row.user >> text=where is answer = 42");
  assert.equal(await panel.locator(".diff-line.added", { hasText: "THREE" }).count(), 0, "no change is shown that was refused");
  await keep("resume");
  await checkAccess(page, "at the end", panel);
}

const dark = { viewport: { width: isEditor ? 900 : 300, height: 760 }, colorScheme: "dark" };
if (isEditor) {
  const { server, address } = await startEditor(place, project, last);
  try {
    await withPage(dark, async (page) => {
      await page.goto(`${address}/?folder=${project}`);
      await page.locator('.activitybar [aria-label*="Sidecar"]').first().click();
      const panel = await findPanel(page);
      await panel.waitForSelector(".start h1");
      const { x, width } = await page.locator(".part.sidebar").boundingBox();
      await page.mouse.move(x + width, 400);
      await page.mouse.down();
      await page.mouse.move(x + 300, 400, { steps: 5 });
      await page.mouse.up();
      await live(page, panel);
    });
  } finally {
    server.kill();
  }
} else {
  await withPage(dark, async (page) => {
    await page.goto(place);
    await page.waitForSelector(".start h1");
    await live(page, page);
  });
}
assert.deepEqual([...lived].sort(), [...STEPS].sort());
console.log(JSON.stringify({ lived }));

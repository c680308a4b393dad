// A day with the panel in a browser: node panel.mjs URL PROJECT DAEMON_PID. Prints what it measured as JSON.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { picture, prompt, until, withPage } from "./browser.mjs";

const [url, project, pid] = process.argv.slice(2);
const file = join(project, "a.py");
const measured = {};

await withPage({ viewport: { width: 1100, height: 800 }, colorScheme: "light" }, async (page) => {
  await page.goto(url);
  await page.waitForSelector(".start h1");
  assert.equal(await page.evaluate(() => location.hash), "", "the token does not stay in the address");
  await picture(page, "1-start");

  // Completion, by the keyboard alone.
  await page.keyboard.type("/comp");
  await page.waitForSelector(".offer");
  await picture(page, "2-completion");
  await page.keyboard.press("Escape");
  await page.fill("textarea.input-text", "see @a.");
  await page.waitForSelector(".offer >> text=a.py");
  await page.keyboard.press("Tab");
  assert.match(await page.inputValue("textarea.input-text"), /^see @a\.py/);

  // A prompt, an answer with thinking and tools.
  await page.selectOption(".choice.model", "fake-1");
  await page.fill(".choice.budget", "10 tokens");
  await page.press(".choice.budget", "Enter");
  await until(async () => (await page.inputValue(".choice.budget")) === "10 tokens per prompt", "the budget");
  await prompt(page, "what may it cost?");
  await page.waitForSelector(".row.notice >> text=This prompt has used 0 of 10 tokens");
  await page.fill(".choice.budget", "none");
  await page.press(".choice.budget", "Enter");
  await prompt(page, "what is in @a.py?");
  await page.waitForSelector(".row.answer li >> text=reason 39");
  assert.equal(await page.locator(".row.answer strong").first().textContent(), "42");
  await page.click(".row.thinking > summary");
  await page.waitForSelector(".row.thinking[open] .markdown");
  await picture(page, "3-answer");

  // A change, with its diff before the consent.
  await prompt(page, "make it 43");
  await page.waitForSelector(".permission .diff-line.added >> text=answer = 43");
  await page.waitForSelector("text=Waiting for you");
  await picture(page, "4-question");
  assert.match(readFileSync(file, "utf8"), /^answer = 42/);
  await page.click(".permission .button.primary");
  await page.waitForSelector(".row.answer >> text=It is 43 now.");
  assert.match(readFileSync(file, "utf8"), /^answer = 43/);
  await page.waitForSelector(".row.tool.done .changes");
  await picture(page, "5-changed");

  // A question that is refused. While it waits, one prompt is queued and taken away, and one goes into the running turn.
  await prompt(page, "make a file");
  await page.waitForSelector(".permission >> text=touch made-by-the-model");
  await prompt(page, "and then a walk");
  await page.waitForSelector(".queued >> text=and then a walk");
  await page.fill("textarea.input-text", "be quick");
  await page.press("textarea.input-text", "Control+Enter");
  await page.click(".queued [aria-label='Remove it']");
  await until(async () => (await page.locator(".queued >> text=and then a walk").count()) === 0, "the queue without it");
  await page.click(".permission .button.danger");
  await page.waitForSelector(".row.user >> text=be quick");
  await page.waitForSelector(".row.answer >> text=I was quick.");

  // A compaction: preview, card, facts, comparison, undo.
  await page.click("[aria-label='Preview a compaction']");
  await page.waitForSelector(".plan .sizes");
  await picture(page, "6-preview");
  await page.click(".plan .button.primary");
  await page.waitForSelector(".compaction.completed");
  await page.locator(".compaction.completed").scrollIntoViewIfNeeded();
  await picture(page, "7-compacted");
  await page.click(".compaction .button:has-text('Facts')");
  await page.waitForSelector("dialog .tabs");
  const fact = page.locator("dialog .fact").first();
  await fact.locator("button:has-text('Look')").click();
  await page.waitForSelector("dialog .fact .entry");
  await fact.locator("button:has-text('Bring back')").click();
  await page.waitForSelector("dialog .fact button:has-text('Back'):disabled");
  await picture(page, "8-facts");
  await page.keyboard.press("Escape");
  const back = page.locator(".compaction", { hasText: "Originals are back" });
  await back.locator("button:has-text('Undo')").click();
  await page.waitForSelector(".compaction.undone");
  await page.click(".compaction .button:has-text('Compare')");
  await page.waitForSelector("dialog .diff-line.removed");
  await page.keyboard.press("Escape");
  await page.click(".compaction.completed .button:has-text('Undo')");
  await until(async () => (await page.locator(".compaction.undone").count()) === 2, "both taken back");
  await until(() => page.evaluate(() => document.activeElement?.closest(".compaction.undone") !== null), "the keyboard in the card");

  // Rules: set by hand, and taken back.
  await page.click("[aria-label='More']");
  await page.click("dialog >> text=Rules…");
  await page.fill("dialog input[aria-label='A new rule']", "Answer in German.");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .fact >> text=Answer in German.");
  await picture(page, "8-rules");
  await page.click("dialog .fact button:has-text('Take back')");
  await page.waitForSelector("dialog >> text=There are none.");
  await page.keyboard.press("Escape");

  // The gauge and its parts.
  assert.ok((await page.locator(".gauge-part").count()) >= 3);
  assert.equal(await page.locator(".gauge .gauge-mark").count(), 1);
  await page.click(".gauge");
  await page.waitForSelector("dialog >> text=a.py");
  await picture(page, "9-context");
  await page.keyboard.press("Escape");

  // Stale files, and the timeline back to before the change.
  writeFileSync(file, readFileSync(file, "utf8") + "# changed behind its back\n");
  await page.waitForSelector(".stale-mark:not([hidden])");
  writeFileSync(file, readFileSync(file, "utf8").replace("# changed behind its back\n", ""));
  await until(async () => (await page.locator(".mark.checkpoint").count()) > 0, "a mark of the checkpoint");
  await page.locator(".mark.checkpoint").last().focus();
  await page.waitForSelector(".tip:not([hidden]) >> text=a.py");
  await picture(page, "10-timeline");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .diff-line.removed");
  await picture(page, "11-checkpoint");
  await page.click("dialog >> text=Take the files back");
  await until(() => readFileSync(file, "utf8").startsWith("answer = 42"), "the file as it was");

  // Back to before a prompt, which is then in the box.
  const row = page.locator(".row.user", { hasText: "make a file" });
  await row.hover();
  await row.locator("[aria-label='Go back to before this prompt']").click();
  await page.click("dialog .buttons .button:has-text('Go back, keep the files'), dialog .buttons .button:has-text('Go back'):only-child, dialog .buttons .button.primary");
  await until(async () => (await page.inputValue("textarea.input-text")) === "make a file", "the prompt in the box");
  assert.equal(await page.locator(".row.user >> text=make a file").count(), 0);
  await page.fill("textarea.input-text", "");

  // Dark, and narrow as in a side bar.
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "12-dark");
  await page.setViewportSize({ width: 360, height: 740 });
  await picture(page, "13-narrow");
  await page.emulateMedia({ colorScheme: "light", forcedColors: "active" });
  await picture(page, "14-high-contrast");
  await page.emulateMedia({ forcedColors: "none" });
  await page.setViewportSize({ width: 1100, height: 800 });

  // The daemon dies; the conversation goes on, and the page says why.
  process.kill(Number(pid), "SIGKILL");
  await page.waitForSelector(".banner >> text=lost");
  await page.waitForSelector(".banner >> text=goes on");
  await page.waitForSelector(".row.user >> text=make it 43");
  await page.selectOption(".choice.model", "offline-1"); // the scripted one was an option of the daemon that died
  await prompt(page, "what is in a.py now?");
  await page.waitForSelector(".row.answer >> text=a.py:1");
  await picture(page, "15-again");

  // Sessions: fork, rename, search, import.
  await page.click("button[aria-label=Conversations]");
  await page.waitForSelector(".session");
  await page.locator(".session").first().hover();
  await page.locator(".session [aria-label^=Rename]").first().click();
  await page.fill("dialog input", "A day with the panel");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".session >> text=A day with the panel");
  await page.fill("input[type=search]", "nothing like it");
  await page.waitForSelector(".drawer >> text=Nothing is found.");
  await page.fill("input[type=search]", "");
  await page.click(".drawer >> text=Of other agents");
  await page.click(".session >> text=a question of before");
  await page.waitForSelector("dialog >> text=claude-code");
  await picture(page, "16-imported");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".row.user >> text=a question of before");

  // A conversation of 5,000 messages: the time from the click to the end of it on the screen.
  await page.click("button[aria-label=Conversations]");
  await page.click(".drawer >> text=Stored here");
  await page.waitForSelector(".session >> text=five thousand");
  measured.firstPaintMs = await page.evaluate(async () => {
    const row = [...document.querySelectorAll(".session-open")].find((each) => each.textContent.includes("five thousand"));
    const begun = performance.now();
    row.click();
    while (!document.querySelector(".rows")?.textContent.includes("the answer 2499")) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return Math.round(performance.now() - begun);
  });
  await until(async () => (await page.locator(".mark").count()) > 60, "the rest of it");
  measured.rows = await page.locator(".rows > *").count();
  assert.ok(measured.rows < 120, `${measured.rows} rows exist`);
  await picture(page, "17-five-thousand");
  await page.locator(".scroller").evaluate((scroller) => (scroller.scrollTop = 0));
  await page.waitForSelector(".row.user >> text=the question 0");

  // 20,000 deltas, as fast as they can be taken: how long the frames are at the beginning and at the end.
  measured.frames = await page.evaluate(async () => {
    const { Panel } = await import("/panel.js");
    const home = { kind: "browser", request: async () => ({}), answer() {}, recall: () => ({}), keep() {}, follow() {} };
    const root = document.createElement("div");
    root.style.cssText = "position:fixed;inset:0;display:flex;background:white;z-index:99";
    document.body.append(root);
    const panel = new Panel(root, home);
    panel.sid = "s";
    let gaps = [];
    let last = performance.now();
    let isOver = false;
    const frame = (now) => (gaps.push(now - last), (last = now), isOver || requestAnimationFrame(frame));
    requestAnimationFrame(frame);
    const share = (part, of = gaps) => {
      const sorted = of.toSorted((a, b) => a - b);
      return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]);
    };
    // What the machine lets a page have that does nothing: others may be at work on it.
    while (gaps.length < 120) await new Promise(requestAnimationFrame);
    const idle = share(0.95);
    gaps = [];
    const send = (seq, kind, data) => panel.receive("sidecar/event", { sid: "s", seq, at: 0, kind, data, turnId: "t" });
    send(1, "userMessage", { nodeId: "n", content: [{ type: "text", text: "go" }] });
    send(2, "phase", { phase: "streaming" });
    const parts = ["Some **words** of ", "an answer with `code` in it.", "\n\n", "- a point\n", "- another\n\n", "```py\n", "x = 1\n", "```\n\n"];
    for (let at = 0; at < 20_000; at++) {
      send(3 + at, "textDelta", { messageId: "m", delta: parts[at % parts.length] });
      if (at % 80 === 79) await new Promise((resolve) => setTimeout(resolve, 4));
    }
    isOver = true;
    await new Promise(requestAnimationFrame);
    const text = root.querySelectorAll(".answer .code-block").length;
    root.remove();
    const quarter = Math.floor(gaps.length / 4);
    const [early, late] = [share(0.5, gaps.slice(0, quarter)), share(0.5, gaps.slice(-quarter))];
    return { count: gaps.length, idle, early, late, p95: share(0.95), longest: share(1), blocks: text };
  });
  assert.equal(measured.frames.blocks, 2500);
});
console.log(JSON.stringify(measured));

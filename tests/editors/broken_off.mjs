// The first second, a second tab, a narrow page, and answers that break off: node broken_off.mjs URL PID_OF_DAEMON.
import assert from "node:assert/strict";
import { checkAccess, picture, prompt, until, withPage } from "./browser.mjs";

const [url, pid] = process.argv.slice(2);

await withPage({ viewport: { width: 300, height: 700 }, colorScheme: "dark" }, async (page, context) => {
  // The daemon takes its time; what is sent meanwhile waits for it.
  let letThrough;
  await page.route("**/events", async (route) => {
    await new Promise((resolve) => (letThrough = resolve));
    await route.continue();
  });
  await page.goto(url);
  await page.waitForSelector(".start >> text=Starting");
  await prompt(page, "/model fake-1");
  await page.waitForSelector(".status >> text=then this is sent: /model fake-1");
  await picture(page, "1-starting");
  await until(() => letThrough, "the request");
  letThrough();
  await page.waitForSelector(".row.answer >> text=fake-1");
  await page.unroute("**/events");

  // The settings are one button, and a sheet.
  assert.equal(await page.locator(".choices").isVisible(), false);
  await page.focus(".chosen-line");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".sheet select.model");
  await checkAccess(page, "the sheet");
  await picture(page, "2-sheet");
  await page.selectOption(".sheet select.permissions", "allowEdits");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".chosen-line >> text=fake-1");
  await page.focus(".legend-button");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .legend >> text=Compaction");
  await checkAccess(page, "the legend");
  await page.keyboard.press("Escape");

  // The same address without the token, in a second tab: both go on with the conversation.
  await prompt(page, "the first");
  await page.waitForSelector(".row.answer >> text=I say one.");
  const other = await context.newPage();
  await other.goto(url.replace(/#.*/, ""));
  await other.waitForSelector(".row.answer >> text=I say one.");
  await prompt(other, "the second");
  await page.waitForSelector(".row.answer >> text=I say two.");
  await other.close();
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && each.checkVisibility()).map((each) => each.className)), [], "nothing is wider than the window");

  // Stopped: what came stays, marked, over a reload too, and is sent again.
  await prompt(page, "go on and on");
  await page.waitForSelector(".row.answer >> text=and on");
  await page.click(".icon-button.stop");
  await page.waitForSelector(".row.end >> text=Stopped");
  await page.reload();
  await page.waitForSelector(".row.end >> text=Stopped");
  assert.match(await page.locator(".row.answer").last().innerText(), /and on/);
  await checkAccess(page, "an answer that broke off");
  await page.click(".row.end button");
  await until(async () => (await page.locator(".row.user >> text=go on and on").count()) === 2, "the prompt again");
  await page.waitForSelector(".row.answer >> text=once more");

  // The daemon dies in the middle of an answer.
  process.kill(Number(pid), "SIGKILL");
  await page.waitForSelector(".banner >> text=goes on");
  await page.waitForSelector(".row.notice >> text=the daemon ended in the middle of the turn");
  await page.waitForSelector(".row.answer >> text=once more");
  await page.reload();
  await page.waitForSelector(".row.notice button >> text=Send again");
  await picture(page, "3-broken-off");
  const shown = await page.locator(".row").evaluateAll((rows) => rows.slice(-3).map((row) => row.className));
  assert.deepEqual(shown.map((each) => each.split(" ")[1]), ["user", "answer", "notice"]);
  assert.match(await page.locator(".row.answer").last().innerText(), /once more/);
});
console.log("{}");

// A sub-agent in the panel: node children.mjs URL. Its steps are below its call, and it is opened from there.
import { checkAccess, picture, prompt, withPage } from "./browser.mjs";

await withPage({ viewport: { width: 1100, height: 800 }, colorScheme: "light" }, async (page) => {
  await page.goto(process.argv[2]);
  await page.waitForSelector(".start h1");
  await page.fill("textarea.input-text", "d");
  await page.selectOption(".choice.model", "fake-1");
  await prompt(page, "delegate it");
  await page.waitForSelector(".row.answer >> text=It is delegated.");
  const seeSteps = async () => {
    await page.click(".row.tool > summary >> text=Sub-agent: Look");
    await page.waitForSelector(".child .row.tool >> text=read");
    await page.waitForSelector(".child .row.answer >> text=It has forty lines.");
  };
  await seeSteps();
  await checkAccess(page, "the steps of a sub-agent");
  await picture(page, "1-steps");
  await page.click(".child .link >> text=Open the sub-agent");
  await page.waitForSelector(".row.user >> text=Look around.");
  await prompt(page, "and how many words?");
  await page.waitForSelector(".row.answer >> text=Ninety words.");
  await picture(page, "2-opened");
  await page.click(".back");
  await page.waitForSelector(".row.user >> text=delegate it");
  await page.reload();
  await page.waitForSelector(".row.answer >> text=It is delegated.");
  await seeSteps();
});
process.stdout.write("{}\n");

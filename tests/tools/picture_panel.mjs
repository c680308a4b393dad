// The picture of the panel in a browser: node picture_panel.mjs URL FILE.
import { prompt, withPage } from "../editors/browser.mjs";

const [url, file] = process.argv.slice(2);

await withPage({ viewport: { width: 1100, height: 760 }, colorScheme: "light" }, async (page) => {
  await page.goto(url);
  await page.waitForSelector(".start h1");
  await prompt(page, "why does a port of 70000 fail so late?");
  await page.waitForSelector(".row.answer >> text=is the place to refuse it");
  await prompt(page, "refuse it where it is read");
  await page.waitForSelector(".permission .diff-line.added >> text=is not a port");
  await page.screenshot({ path: file });
  await page.click(".permission .button.primary");
  await page.waitForSelector(".row.answer >> text=Ports are checked now.");
});

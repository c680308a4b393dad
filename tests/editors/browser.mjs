// A real browser for the panel, and pictures of it. NODE_PATH is not used by modules: the library is found by its folder.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const { chromium } = createRequire(fileURLToPath(new URL("../../editors/vscode/package.json", import.meta.url)))("playwright-core");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const PATIENCE_MS = 20_000;

/** Run `use` with a new page; what the page logs as an error fails it. */
export async function withPage(options, use) {
  const context = await chromium.launchPersistentContext(mkdtempSync(join(tmpdir(), "chromium-")), { executablePath: process.env.SIDECAR_CHROMIUM, headless: true, args: FLAGS, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.stack));
  page.on("console", (message) => /content security policy/i.test(message.text()) && errors.push(message.text()));
  try {
    await use(page, context);
    assert.deepEqual(errors, []);
  } catch (error) {
    await picture(page, "failed").catch(() => {});
    throw error;
  } finally {
    await context.close();
  }
}

/** Keep a picture to be looked at. */
export async function picture(page, name) {
  const folder = process.env.SCREENS;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** Wait until `read` gives something true, and return it. */
export async function until(read, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await read();
    if (found) return found;
    assert.ok(Date.now() < end, `waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Type a prompt into the panel and send it. */
export async function prompt(panel, text) {
  await panel.fill("textarea.input-text", text);
  await panel.press("textarea.input-text", "Enter");
}

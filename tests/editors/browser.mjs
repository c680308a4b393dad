// A real browser for the panel, and pictures of it. NODE_PATH is not used by modules: the library is found by its folder.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const library = createRequire(fileURLToPath(new URL("../../editors/vscode/package.json", import.meta.url)));
const { chromium } = library("playwright-core");
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

/**
 * Fail for what the rules of WCAG 2.2 AA find on the page, or in a frame of it. The rules are put in from outside: the
 * page lets no script in. The marks of the timeline may stand close: all that they do is also done from the rows.
 */
export async function checkAccess(page, what, frame = page) {
  const session = await page.context().newCDPSession(page);
  const contexts = [];
  session.on("Runtime.executionContextCreated", ({ context }) => context.auxData?.isDefault && contexts.push(context.id));
  await session.send("Runtime.enable");
  const run = async (expression, contextId) => (await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true })).result.value;
  let where;
  if (frame !== page) for (const each of contexts) if (await run("document.querySelector('#panel textarea.input-text') !== null", each)) where = each;
  assert.ok(frame === page || where !== undefined, "the frame");
  await run(readFileSync(library.resolve("axe-core/axe.min.js"), "utf8"), where);
  const found = await run(`axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }).then(({ violations }) => violations.map(({ id, nodes }) => ({ id, nodes: nodes.filter(({ html }) => id !== "target-size" || !html.includes('class="mark ')) })).filter(({ nodes }) => nodes.length > 0).map(({ id, nodes }) => id + ": " + nodes.map((each) => each.html.slice(0, 200) + " " + each.failureSummary).join("; ")))`, where);
  assert.deepEqual(found, [], what);
  await session.detach();
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

// A real VS Code with the packed extension, served to a browser; CODE_SERVER and VSIX name both.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "./browser.mjs";

const { CODE_SERVER, VSIX } = process.env;

/** Start the editor on `project`; `folder` is empty, `settings` the JSON of its settings. */
export async function startEditor(folder, project, settings) {
  const data = join(folder, "data");
  for (const kind of ["User", "Machine"]) {
    mkdirSync(join(data, kind), { recursive: true });
    writeFileSync(join(data, kind, "settings.json"), settings);
  }
  writeFileSync(join(folder, "config.yaml"), "auth: none\n");
  const common = [CODE_SERVER, "--user-data-dir", data, "--extensions-dir", join(folder, "extensions"), "--config", join(folder, "config.yaml")];
  execFileSync("node", [...common, "--install-extension", VSIX], { stdio: "ignore" });
  const server = spawn("node", [...common, "--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust", project], { stdio: ["ignore", "pipe", "ignore"] });
  const address = await new Promise((resolve) => {
    let text = "";
    server.stdout.on("data", (part) => {
      text += part;
      const found = /listening on (http:\/\/[\d.:]+)/i.exec(text);
      if (found) resolve(found[1]);
    });
  });
  return { server, address };
}

/** The frame of the panel, once it is drawn. */
export const findPanel = (page) =>
  until(async () => {
    for (const frame of page.frames()) if ((await frame.locator("#panel textarea.input-text").count().catch(() => 0)) > 0) return frame;
    return undefined;
  }, "the panel");

/** Open a file of the folder, with the cursor on its first line. */
export async function openFile(page, name) {
  await page.keyboard.press("Control+p");
  await page.locator(".quick-input-box input").fill(name);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first().click();
  await page.locator(".monaco-editor .view-line").first().click();
  await page.keyboard.press("Control+Home");
}

/** Run a command of the palette. */
export async function runCommand(page, name) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-box input").fill(`>${name}`);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first().click();
}

// Makes out/, or the folder OUT: the extension and the panel as one file each, and with --wheel the daemon that the extension can install.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const root = join(here, "..", "..");
const page = join(root, "sidecar", "panel", "page");
const out = process.env.OUT ?? join(here, "out");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const common = { bundle: true, minify: true, legalComments: "none", logLevel: "warning" };
await build({ ...common, entryPoints: [join(here, "src", "extension.ts")], outfile: join(out, "extension.js"), platform: "node", target: "node20", format: "cjs", external: ["vscode"] });
await build({ ...common, entryPoints: [join(page, "webview.js")], outfile: join(out, "panel.js"), platform: "browser", target: "chrome120", format: "esm" });
copyFileSync(join(page, "panel.css"), join(out, "panel.css"));
if (process.argv.includes("--wheel")) {
  const python = process.env.PYTHON ?? (process.platform === "win32" ? "python" : "python3");
  execFileSync(python, ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", out, root], { stdio: "inherit" });
}

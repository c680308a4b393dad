/** Folders for tests, gone when the tests are. */

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function newFolder(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "sidecar-")));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

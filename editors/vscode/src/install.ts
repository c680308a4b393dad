/**
 * The daemon's program: the one of the settings, else `sidecar` in the path, else the one that this extension has
 * installed into an environment of its own, from the wheel that it carries.
 */

import { execFile } from "node:child_process";
import { access, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python", "py"];
const IS_WINDOWS = process.platform === "win32";

/** Where the extension is, and where it may keep an environment. */
export interface Places {
  readonly extension: string;
  readonly storage: string;
}

/** There is no daemon; the message says what was looked for. */
export class NoDaemon extends Error {}

/** Return the program; rejects with NoDaemon where there is none. */
export async function findDaemon(configured: string, places: Places): Promise<string> {
  if (configured !== "") return configured;
  if (await answers("sidecar")) return "sidecar";
  const installed = program(places);
  if ((await isThere(installed)) && (await isCurrent(places))) return installed;
  throw new NoDaemon("sidecar is not in the path, and not installed here yet");
}

/** Install the carried wheel into an environment of its own, and return the program. */
export async function installDaemon(python: string, places: Places, tell: (step: string) => void): Promise<string> {
  const wheel = await carriedWheel(places);
  if (wheel === undefined) throw new NoDaemon("this build of the extension carries no daemon; install it and name its program in sidecar.command");
  tell("Looking for Python");
  const found = await findPython(python === "" ? PYTHONS : [python]);
  if (found === undefined) throw new NoDaemon("no Python 3.11 or later was found; install one, or name it in sidecar.python");
  tell("Making an environment");
  const folder = join(places.storage, "environment");
  await rm(folder, { recursive: true, force: true });
  await run(found, ["-m", "venv", folder]);
  tell("Installing the daemon");
  const own = join(folder, IS_WINDOWS ? "Scripts" : "bin", IS_WINDOWS ? "python.exe" : "python");
  await run(own, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", join(places.extension, "out", wheel)]);
  await writeFile(marker(places), wheel);
  return program(places);
}

function program({ storage }: Places): string {
  return join(storage, "environment", IS_WINDOWS ? "Scripts" : "bin", IS_WINDOWS ? "sidecar.exe" : "sidecar");
}

function marker({ storage }: Places): string {
  return join(storage, "environment", "installed");
}

/** Whether the environment has the wheel that is carried now; an update brings a newer one. */
async function isCurrent(places: Places): Promise<boolean> {
  const [wheel, installed] = [await carriedWheel(places), await readFile(marker(places), "utf8").catch(() => "")];
  return installed !== "" && (wheel === undefined || wheel === installed);
}

async function carriedWheel({ extension }: Places): Promise<string | undefined> {
  return (await readdir(join(extension, "out")).catch(() => [])).find((name) => name.endsWith(".whl"));
}

/** Another program of that name does not answer like this. */
async function answers(command: string): Promise<boolean> {
  const said = await run(command, ["--version"], { timeout: 20_000 }).catch(() => undefined);
  return said !== undefined && /^sidecar \d/.test(said.stdout);
}

async function findPython(names: readonly string[]): Promise<string | undefined> {
  for (const name of names) {
    const said = await run(name, ["-c", "import sys, venv; print(sys.version_info >= (3, 11))"]).catch(() => undefined);
    if (said?.stdout.trim() === "True") return name;
  }
  return undefined;
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

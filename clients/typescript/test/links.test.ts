/** Daemons that misbehave, and sockets: what a client learns, and that it always ends. */

import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { basename, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createMessageConnection } from "vscode-jsonrpc/node";

import { ConnectionLost, SidecarClient, SidecarRequestError, allow, type SpawnOptions } from "sidecar-client";

import { newFolder } from "./folders.js";

const PROGRAM = fileURLToPath(new URL("fake-daemon.js", import.meta.url));

function start(how: string, options: SpawnOptions = {}): Promise<SidecarClient> {
  return SidecarClient.spawn({ command: [process.execPath, PROGRAM, how], log: () => undefined, ...options });
}

/** What a daemon that behaves as `how` says answers, or the error; and how it ended. */
async function ask(how: string, options: SpawnOptions = {}): Promise<{ said: unknown; exitCode: number | null }> {
  const client = await start(how, options);
  const said: unknown = await client.request("sidecar/status", {}).catch((error: unknown) => error);
  await client.close();
  return { said, exitCode: client.exitCode };
}

function assertLost(error: unknown, reason: RegExp): asserts error is ConnectionLost {
  assert.ok(error instanceof ConnectionLost, String(error));
  assert.match(error.reason, reason);
}

test("a daemon runs where and with what it is told, and ends with its client", async () => {
  const cwd = newFolder();
  const { said, exitCode } = await ask("plain", { cwd, env: { EXTRA: "yes" } });
  assert.deepEqual({ said, exitCode }, { said: { cwd, extra: "yes" }, exitCode: 0 });
});

test("a refusal is typed", async () => {
  const { said } = await ask("refuse");
  assert.ok(said instanceof SidecarRequestError);
  assert.deepEqual([said.kind, said.code, said.retryable], ["busy", -32803, true]);
});

test("death in the middle of an answer is told with code and last words", async () => {
  const { said } = await ask("crash");
  assertLost(said, /exit code 3/);
  assert.equal(said.exitCode, 3);
  assert.match(said.stderrTail, /last words$/);
  assert.doesNotMatch(said.stderrTail, /early words/);
});

test("death by a signal names it", { skip: process.platform === "win32" }, async () => {
  assertLost((await ask("killMe")).said, /SIGTERM/);
});

test("what is no protocol fails the request, and the process is ended", async () => {
  const { said, exitCode } = await ask("garbage");
  assertLost(said, /not the protocol/);
  assert.notEqual(exitCode, null);
});

test("a child that holds the pipes hides no death", async () => {
  assertLost((await ask("leaveChild")).said, /exit code 4/);
});

test("what a daemon says before it dies is heard", async () => {
  const client = await start("talkAndDie");
  const events = client.events("s", 0);
  assert.equal(await client.request("sidecar/status", {}), "done");
  assertLost(await client.ended, /exit code 0/);
  for (let seq = 1; seq <= 500; seq += 1) assert.equal((await events.next()).value?.seq, seq);
  await assert.rejects(events.next(), ConnectionLost);
  await assert.rejects(client.request("sidecar/status", {}), ConnectionLost);
  await client.close();
});

test("streams end with their client, and nothing more can be asked", async () => {
  const client = await start("plain");
  const next = client.events("s").next();
  await client.close();
  assert.equal((await next).done, true);
  assert.equal((await client.events("s").next()).done, true);
  assertLost(await client.ended, /exit code 0/);
  await assert.rejects(client.request("sidecar/status", {}), ConnectionLost);
});

test("a daemon that listens to nothing is killed in bounded time", { timeout: 20_000 }, async () => {
  const client = await start("deaf");
  const request = client.request("sidecar/status", {}).catch((error: unknown) => error);
  const document = { uri: "file:///a", text: "x".repeat(1_000_000) };
  const note = client.documents.opened(document).catch((error: unknown) => error);
  await client.close(50);
  assertLost(await request, /SIGKILL|exit code/);
  assert.ok((await note) instanceof ConnectionLost);
});

test("a daemon that never shakes hands is ended", { timeout: 20_000 }, async () => {
  await assert.rejects(start("silent", { startMs: 200 }), /no answer to initialize in 200 ms/);
});

test("a daemon of another protocol is refused", async () => {
  await assert.rejects(start("older"), /no daemon of protocol 1/);
});

test("a program that is not there is named", async () => {
  await assert.rejects(start("plain", { command: ["no-such-program"] }), /cannot start "no-such-program"/);
});

test("a permission is given by a handler, and by nobody else", async () => {
  const no = { outcome: "selected", optionId: "no" };
  assert.deepEqual((await ask("ask")).said, no);
  assert.deepEqual((await ask("ask", { permission: allow })).said, { outcome: "selected", optionId: "yes" });
});

test("a form is answered by a handler, and is asked of nobody else", async () => {
  const forms: unknown[] = [];
  const elicit = (form: { message: string; from: string }) => {
    forms.push([form.message, form.from]);
    return { action: "accept", content: { q1: "Postgres" } };
  };
  assert.deepEqual((await ask("elicit", { elicit })).said, { action: "accept", content: { q1: "Postgres" } });
  assert.deepEqual(forms, [["Which database?", "agent"]]);
  assert.match(((await ask("elicit")).said as { message: string }).message, /Unhandled method/);
});

test("a handler that fails is told of, and gives no permission", async () => {
  const lines: string[] = [];
  const permission = () => Promise.reject(new Error("oops"));
  const { said } = await ask("ask", { permission, log: (line) => lines.push(line) });
  assert.match((said as { message: string }).message, /oops/);
  assert.match(lines.join(), /the handler of sidecar\/permission\/request failed: Error: oops/);
});

test("a handler learns that its question was taken back", async () => {
  const { said } = await ask("askNoMore", {
    permission: async (_request, signal) => {
      await new Promise((resolve) => (signal.aborted ? resolve(null) : signal.addEventListener("abort", resolve)));
      return { outcome: "cancelled" };
    },
  });
  assert.deepEqual(said, { outcome: "cancelled" });
});

test("an attached client asks for no shutdown and no watch, and leaves the daemon running", async () => {
  const path = whereToListen();
  const heard: unknown[] = [];
  const server = createServer((socket) => serve(socket, heard)).listen(path);
  await new Promise((resolve) => server.once("listening", resolve));
  const client = await SidecarClient.connect(path);
  assert.deepEqual(await client.request("sidecar/status", {}), { said: "hello" });
  await client.close();
  await new Promise((resolve) => server.close(resolve));
  assert.deepEqual(heard, [["initialize", null], ["initialized", undefined], ["sidecar/status", undefined]]);
  assertLost(await client.ended, /closed/);
});

test("a daemon that hangs up is told at once", async () => {
  const path = whereToListen();
  const server = createServer((socket) => serve(socket, [], "sidecar/status")).listen(path);
  await new Promise((resolve) => server.once("listening", resolve));
  const client = await SidecarClient.connect(path);
  await assert.rejects(client.request("sidecar/status", {}), ConnectionLost);
  await client.close();
  server.close();
});

test("nobody at the socket is named", async () => {
  await assert.rejects(SidecarClient.connect(join(newFolder(), "nobody")), /no daemon answers at/);
});

function whereToListen(): string {
  const folder = newFolder();
  return process.platform === "win32" ? `\\\\.\\pipe\\${basename(folder)}` : join(folder, "s");
}

/** A daemon at a socket: it remembers what it heard and whom to watch, and hangs up on one method. */
function serve(socket: Socket, heard: unknown[], hangsUpOn?: string): void {
  const connection = createMessageConnection(socket, socket);
  const note = (method: string, params: unknown) => {
    if (method === hangsUpOn) socket.destroy();
    heard.push([method, (params as { processId?: unknown }).processId]);
  };
  connection.onNotification(note);
  connection.onRequest((method, params) => {
    note(method, params);
    return method === "initialize"
      ? { capabilities: { experimental: { sidecar: { protocol: 1 } } } }
      : { said: "hello" };
  });
  connection.listen();
}

/** The client against the real daemon: prompts, buffers, permissions, a compaction and back, a reload. */

import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { SidecarClient, SidecarRequestError, allow, reject, type SpawnOptions } from "sidecar-client";

import { newFolder } from "./folders.js";

const QUESTION = "What is in README.md?";
const LOOK = { toolCall: { name: "code", input: { kind: "definition", path: "README.md", symbol: "parrot" } } };
const OPTIONS: SpawnOptions = {
  command: JSON.parse(process.env["SIDECAR_COMMAND"] ?? '["sidecar"]') as string[],
  env: { INDUSAGI_HOME: newFolder() },
  permission: (request) => (request.subject.detail.includes("forbidden") ? reject(request) : allow(request)),
  options: { models: { asking: { scripted: [[LOOK], [{ text: "I see." }]] } } },
  queryEditor: ({ kind, uri, position }) => ({
    answer: kind === "definition" ? [{ uri, range: { start: position, end: position } }] : null,
  }),
};

let client: SidecarClient;
before(async () => {
  client = await SidecarClient.spawn(OPTIONS);
});
after(async () => {
  await client.close();
  assert.equal(client.exitCode, 0);
});

/** A folder with one file about a parrot. */
function folder(): string {
  const path = newFolder();
  writeFileSync(join(path, "README.md"), "# Parrot\n\nThe parrot is blue.\n");
  return path;
}

function soon(): AbortSignal {
  return AbortSignal.timeout(30_000);
}

test("the daemon says who it is", () => {
  assert.equal(client.server.protocol, 1);
  assert.ok(client.server.methods.includes("sidecar/status"));
});

test("a prompt is answered from the files", async () => {
  const cwd = folder();
  const session = await client.startSession({ cwd });
  const ran = await session.run(QUESTION);
  assert.equal(ran.stopReason, "end_turn");
  assert.match(ran.text, /The parrot is blue\./);
  const { files } = await session.request("sidecar/context/files", {});
  assert.deepEqual(
    files.map(({ uri, stale }) => [uri, stale]),
    [[pathToFileURL(join(cwd, "README.md")).href, false]],
  );
  assert.notEqual((await session.request("sidecar/context/usage", { detail: true })).by, undefined);
});

test("the model asks the editor where something is", async () => {
  const session = await client.startSession({ cwd: folder(), model: "asking" });
  const contents: string[] = [];
  for await (const event of session.stream("where is it?")) {
    if (event.kind === "toolFinished") contents.push(String(event.data.content));
  }
  assert.deepEqual(contents, ["README.md:3: The parrot is blue."]);
});

test("a stream tells a whole turn in order", async () => {
  const session = await client.startSession({ cwd: folder() });
  const [kinds, seqs]: [string[], number[]] = [[], []];
  let text = "";
  for await (const event of session.stream(QUESTION)) {
    kinds.push(event.kind);
    seqs.push(event.seq);
    if (event.kind === "textDelta") text += event.data.delta;
  }
  assert.deepEqual(seqs, [...new Set(seqs)].sort((a, b) => a - b));
  for (const kind of ["userMessage", "toolStarted", "toolFinished", "message"]) assert.ok(kinds.includes(kind), kind);
  assert.equal(kinds.at(-1), "settled");
  assert.match(text, /The parrot is blue\./);
});

test("a prompt may be sent and waited for later", async () => {
  const session = await client.startSession({ cwd: folder() });
  const { turnId } = await session.prompt(QUESTION);
  const settled = await session.waitFor("settled", (event) => event.turnId === turnId, soon());
  assert.equal(settled.data.stopReason, "end_turn");
});

test("waiting is given up in time", async () => {
  const session = await client.startSession({ cwd: folder() });
  await assert.rejects(session.waitFor("faulted", undefined, AbortSignal.timeout(20)), { name: "TimeoutError" });
});

test("an unsaved buffer is read before the disk", async () => {
  const cwd = folder();
  const uri = pathToFileURL(join(cwd, "README.md")).href;
  await client.documents.opened({ uri, text: "The 🦜 is green.\n", languageId: "markdown" });
  const session = await client.startSession({ cwd });
  assert.match((await session.run(QUESTION)).text, /green/);
  const range = { start: { line: 0, character: 10 }, end: { line: 0, character: 15 } };
  await client.documents.changed(uri, [{ range, text: "red" }]);
  const stale = await session.waitFor("fileStale", undefined, soon());
  assert.equal(stale.data.uri, uri);
  assert.match((await session.run(QUESTION)).text, /The 🦜 is red\./);
  await client.documents.closed(uri);
});

test("the editor is reported, and prompts are completed", async () => {
  const cwd = folder();
  const session = await client.startSession({ cwd });
  const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 5 } };
  const uri = pathToFileURL(join(cwd, "README.md")).href;
  await client.reportEditor({ active: { uri, selections: [range] }, diagnostics: [] });
  const offered = async () =>
    (await client.complete({ sid: session.sid, text: "@", position: 1 })).items.map((item) => item.insertText);
  assert.deepEqual(await offered(), ["@selection ", "@diagnostics ", "@diff ", "@README.md "]);
  await client.reportEditor({ active: null });
  assert.ok(!(await offered()).includes("@selection "));
});

test("a compaction is previewed, run and taken back", async () => {
  const session = await client.startSession({ cwd: folder() });
  for (let turn = 0; turn < 3; turn += 1) await session.run(QUESTION);
  const plan = await session.request("sidecar/compact/preview", { mode: "force" });
  const done = await session.compact();
  assert.deepEqual([done.status, done.droppedCount], ["completed", plan.dropped?.count]);
  await session.waitFor("usage", undefined, soon()); // until the new size is told, the session is at work
  const undone = await session.request("sidecar/compact/undo", {});
  assert.ok(undone.restoredTokens > 0);
});

test("a tool that writes asks first", async () => {
  const cwd = folder();
  const session = await client.startSession({ cwd });
  await session.run("write hello.txt: hello");
  await session.run("write forbidden.txt: hello");
  assert.deepEqual(["hello.txt", "forbidden.txt"].map((name) => existsSync(join(cwd, name))), [true, false]);
});

test("a session outlives its daemon", async () => {
  const cwd = folder();
  const session = await client.startSession({ cwd });
  await session.run(QUESTION);
  await session.close();
  const another = await SidecarClient.spawn({ ...OPTIONS, cwd });
  try {
    const { sessions } = await another.request("sidecar/session/list", { cwd });
    assert.deepEqual(sessions.map(({ sid }) => sid), [session.sid]);
    const events = another.events(session.sid);
    const loaded = await another.request("sidecar/session/load", { sid: session.sid, replay: "full" });
    assert.ok(loaded.integrity.ok);
    const { value: first } = await events.next();
    assert.deepEqual([first?.seq, first?.kind], [0, "userMessage"]);
  } finally {
    await another.close();
  }
});

test("a refusal is typed", async () => {
  await assert.rejects(client.loadSession("0".repeat(32)), (error) => {
    assert.ok(error instanceof SidecarRequestError);
    assert.equal(error.kind, "sessionNotFound");
    return true;
  });
});

test("a run that is given up leaves the session well", async () => {
  const session = await client.startSession({ cwd: folder() });
  const abort = new AbortController();
  const running = session.run(QUESTION, abort.signal).catch((error: unknown) => error);
  await session.waitFor("phase", undefined, soon());
  abort.abort();
  const outcome = await running;
  if (outcome instanceof Error) assert.equal((outcome as SidecarRequestError).kind, "cancelled");
  assert.equal((await session.run(QUESTION)).stopReason, "end_turn");
});

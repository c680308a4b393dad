/** What a client tells of open buffers, as the wire has it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Documents } from "sidecar-client";

const URI = "file:///a.py";

/** The notifications that `tell` makes, as JSON has them. */
async function told(tell: (documents: Documents) => Promise<void>): Promise<unknown> {
  const messages: unknown[] = [];
  await tell(new Documents(async (...message) => void messages.push(message)));
  return JSON.parse(JSON.stringify(messages));
}

test("versions are counted, unless the caller has its own", async () => {
  const messages = await told(async (documents) => {
    await documents.opened({ uri: URI, text: "a" });
    await documents.changed(URI, "b");
    await documents.changed(URI, "c", 7);
    await documents.changed(URI, "d");
  });
  const change = (version: number, text: string) => [
    "textDocument/didChange",
    { textDocument: { uri: URI, version }, contentChanges: [{ text }] },
  ];
  assert.deepEqual(messages, [
    ["textDocument/didOpen", { textDocument: { uri: URI, languageId: "plaintext", version: 1, text: "a" } }],
    change(2, "b"),
    change(7, "c"),
    change(8, "d"),
  ]);
});

test("an editor's own ranges are spelled as the protocol has them", async () => {
  class Range {
    readonly start = { line: 1, character: 2 };
    readonly end = { line: 1, character: 4 };
    toJSON(): unknown {
      return [this.start, this.end];
    }
  }
  const changes = [{ range: new Range(), rangeLength: 2, text: "x" }];
  const range = { start: { line: 1, character: 2 }, end: { line: 1, character: 4 } };
  assert.deepEqual(await told((documents) => documents.changed(URI, changes, 3)), [
    ["textDocument/didChange", { textDocument: { uri: URI, version: 3 }, contentChanges: [{ range, text: "x" }] }],
  ]);
});

test("a change of nothing is not told", async () => {
  assert.deepEqual(await told((documents) => documents.changed(URI, [], 1)), []);
});

test("what happens to files has LSP's numbers", async () => {
  const changes = [
    ["file:///a", "created"],
    ["file:///b", "changed"],
    ["file:///c", "deleted"],
  ] as const;
  assert.deepEqual(await told((documents) => documents.filesChanged(changes)), [
    [
      "workspace/didChangeWatchedFiles",
      { changes: [{ uri: "file:///a", type: 1 }, { uri: "file:///b", type: 2 }, { uri: "file:///c", type: 3 }] },
    ],
  ]);
});

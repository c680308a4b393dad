import { expect, test } from "vitest";
import { Transcript, eventsOf } from "../../../../sidecar/panel/page/transcript.js";

let seq = 0;

/** @param {Transcript} transcript @param {...[string, object]} events */
function take(transcript, ...events) {
  for (const [kind, data] of events) transcript.take(/** @type {any} */ ({ sid: "s", seq: ++seq, at: 1000, kind, data, turnId: "t" }));
  return transcript;
}

const rows = (/** @type {Transcript} */ transcript) => transcript.rows.map((row) => `${row.type}: ${"text" in row ? row.text : "title" in row ? row.title : ""}`);
const tool = { toolCallId: "c", name: "edit", title: "Edit a.py", kind: "edit", locations: [{ path: "/p/a.py" }] };

test("an answer grows by deltas, and its message has the last word", () => {
  const transcript = take(new Transcript(), ["userMessage", { nodeId: "n", content: [{ type: "text", text: "go" }] }], ["thinkingDelta", { messageId: "m", delta: "hm" }], ["textDelta", { messageId: "m", delta: "Hel" }], ["textDelta", { messageId: "m", delta: "lo" }]);
  expect(rows(transcript)).toEqual(["user: go", "thinking: hm", "answer: Hello"]);
  expect(transcript.rows.map((row) => "done" in row && row.done)).toEqual([false, true, false]);
  take(transcript, ["message", { messageId: "m", content: [{ type: "thinking", text: "hm." }, { type: "text", text: "Hello!" }] }]);
  expect(rows(transcript)).toEqual(["user: go", "thinking: hm.", "answer: Hello!"]);
});

test("an answer that broke off is taken back", () => {
  const transcript = take(new Transcript(), ["thinkingDelta", { messageId: "t.0", delta: "hm" }], ["textDelta", { messageId: "t.0", delta: "half" }], ["retry", { attempt: 1, max: 6, delayMs: 500, error: "cut", withdrawn: "t.0" }], ["textDelta", { messageId: "t.1", delta: "whole" }]);
  expect(rows(transcript)).toEqual(["thinking: ", "answer: ", "notice: cut", "answer: whole"]);
});

test("an event that comes twice counts once", () => {
  const transcript = new Transcript();
  const event = /** @type {any} */ ({ sid: "s", seq: 7, at: 1, kind: "textDelta", data: { messageId: "m", delta: "x" } });
  transcript.take(event);
  transcript.take(event);
  expect(rows(transcript)).toEqual(["answer: x"]);
});

test("what the snapshot has is not told again", () => {
  const transcript = new Transcript();
  transcript.enter(/** @type {any} */ ({ phase: "idle", title: "", queue: [], plan: [], head: null, seq: 900_000 }));
  take(transcript, ["notice", { severity: "info", title: "old", description: "" }]);
  expect(transcript.rows).toEqual([]);
});

test("the past that is replayed has the changes that its calls asked for", () => {
  const transcript = new Transcript();
  for (const [kind, data] of /** @type {[string, object][]} */ ([["toolStarted", { ...tool, input: { path: "a.py", oldText: "a", newText: "b" } }], ["toolFinished", { ...tool, content: "edited", isError: false, diffs: [] }]])) {
    transcript.take(/** @type {any} */ ({ sid: "s", seq: 0, at: 0, kind, data }));
  }
  expect(transcript.rows[0]).toMatchObject({ type: "tool", done: true, diffs: [{ path: "/p/a.py", oldText: "a", newText: "b", isPart: true }] });
});

test("a compaction is one card from its beginning to its end", () => {
  const compaction = { compactionId: "k", engine: "e", trigger: "auto", status: "in_progress" };
  const transcript = take(new Transcript(), ["compaction", compaction], ["compactionSummaryDelta", { compactionId: "k", delta: "so far" }], ["rehydrated", { files: [{ uri: "file:///a" }], missing: [] }], ["compaction", { ...compaction, status: "completed" }]);
  expect(transcript.rows).toHaveLength(1);
  expect(transcript.rows[0]).toMatchObject({ type: "compaction", summary: "so far", compaction: { status: "completed" } });
  expect(transcript.compactionId).toBe("");
});

test("the end of a turn ends all that was open in it", () => {
  const transcript = take(new Transcript(), ["userMessage", { nodeId: "n", content: [{ type: "text", text: "go" }] }], ["phase", { phase: "streaming" }], ["textDelta", { messageId: "m", delta: "half" }], ["toolStarted", { ...tool, input: {} }]);
  expect(transcript.isBusy).toBe(true);
  take(transcript, ["settled", { turnId: "t", stopReason: "cancelled", head: "h", usage: {}, durationMs: 10 }]);
  expect(transcript.isBusy).toBe(false);
  expect(transcript.rows.every((row) => !("done" in row) || row.done)).toBe(true);
  expect(transcript.rows.at(-1)).toMatchObject({ type: "end", stopReason: "cancelled" });
});

test("only pictures of known kinds become pictures", () => {
  const image = (/** @type {string} */ mimeType) => ({ type: "image", mimeType, data: "AA==" });
  const transcript = take(new Transcript(), ["userMessage", { nodeId: "n", content: [image("image/png"), image("image/svg+xml"), image("text/html")] }]);
  expect(transcript.rows[0]).toMatchObject({ images: ["data:image/png;base64,AA=="] });
});

test("proposed rules are told when they become more", () => {
  const rules = (/** @type {boolean[]} */ ...proposed) => ({ rules: proposed.map((each, at) => ({ id: String(at), proposed: each })) });
  const transcript = take(new Transcript(), ["rulesChanged", rules(false)], ["rulesChanged", rules(false, true)], ["rulesChanged", rules(true, true)], ["rulesChanged", rules(false, true)]);
  expect(transcript.rows.map((row) => "title" in row && row.title)).toEqual(["A rule is proposed", "2 rules are proposed"]);
});

test("stale files are known until they are fresh", () => {
  const transcript = take(new Transcript(), ["fileStale", { uri: "file:///a" }], ["fileStale", { uri: "file:///b" }], ["fileFresh", { uri: "file:///a" }]);
  expect([...transcript.stale]).toEqual(["file:///b"]);
});

test("stored nodes are shown as the past that they are", () => {
  const common = { parent: null, createdAt: 0 };
  const transcript = new Transcript();
  const nodes = [
    { ...common, id: "1", role: "user", blocks: [{ kind: "text", text: "go" }] },
    { ...common, id: "2", role: "assistant", blocks: [{ kind: "thinking", text: "hm" }, { kind: "text", text: "I read." }, { kind: "tool_call", id: "c", name: "read", input: { path: "a" } }] },
    { ...common, id: "3", role: "tool", blocks: [{ kind: "tool_result", callId: "c", output: "text of a" }] },
  ];
  for (const event of eventsOf("s", nodes)) transcript.take(event);
  expect(rows(transcript)).toEqual(["user: go", "thinking: hm", "answer: I read.", "tool: read"]);
  expect(transcript.rows.at(-1)).toMatchObject({ done: true, output: "text of a" });
});

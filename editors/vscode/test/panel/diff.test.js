import { expect, test } from "vitest";
import { compareLines, countChanges, diffView, foldKept, readUnified } from "../../../../sidecar/panel/page/diff.js";

const drawn = (/** @type {import("../../../../sidecar/panel/page/diff.js").DiffLine[]} */ lines) => lines.map(({ kind, text }) => kind + text);

test.each([
  ["keeps what both have", "a\nb\nc\n", "a\nx\nc\n", [" a", "-b", "+x", " c"]],
  ["adds to an empty file", "", "a\nb", ["+a", "+b"]],
  ["removes all", "a\n", "", ["-a"]],
  ["moves no line that is the same", "a\nb\nc\nd", "b\nc\nd\ne", ["-a", " b", " c", " d", "+e"]],
  ["sees no difference", "a\nb", "a\nb\n", [" a", " b"]],
])("a comparison %s", (_rule, before, after, expected) => {
  expect(drawn(compareLines(before, after))).toEqual(expected);
});

test("lines have the numbers of their own side", () => {
  const [, removed, added, last] = compareLines("a\nb\nc", "a\nx\nc");
  expect([removed?.before, added?.after, last?.before, last?.after]).toEqual([2, 2, 3, 3]);
});

test("kept lines far from a change are folded", () => {
  const before = Array.from({ length: 50 }, (_, at) => `line ${at}`).join("\n");
  const lines = foldKept(compareLines(before, before.replace("line 25", "other")));
  expect(lines.filter(({ kind }) => kind === "@").map(({ text }) => text)).toEqual(["22 unchanged", "21 unchanged"]);
  expect(countChanges(lines)).toEqual({ added: 1, removed: 1 });
});

// A table of their lines would have more cells than an array can.
test("two large files without a common line are compared without a table", () => {
  const of = (/** @type {string} */ name) => Array.from({ length: 120_000 }, (_, at) => `${name} ${at}`).join("\n");
  expect(countChanges(compareLines(of("a"), of("b")))).toEqual({ added: 120_000, removed: 120_000 });
});

test("a unified diff is read", () => {
  expect(drawn(readUnified("--- a\n+++ b\n@@ -3,2 +3,2 @@\n same\n-old\n+new\n"))).toEqual(["@line 3", " same", "-old", "+new"]);
});

test("a screen reader is told what a line is", () => {
  expect(diffView(compareLines("a", "b"), "Changes", "").textContent).toContain("removed: a");
});

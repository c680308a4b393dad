import { expect, test } from "vitest";
import { answersFor, nearest, split } from "../../src/hunks.ts";

const hunk = (oldStart, oldEnd, newStart, newEnd) => ({ oldStart, oldEnd, newStart, newEnd });
const diff = { path: "a", oldText: "a\nb\nc\nd", newText: "a\nB\nc\nD", hunks: [hunk(1, 2, 1, 2), hunk(3, 4, 3, 4)] };
const blank = { path: "a", oldText: "a\n\nc\n", newText: "x\n\ny\n\nC\n", hunks: [hunk(0, 1, 0, 3), hunk(2, 3, 4, 5)] };

test.each([
  ["a\nB\nc\nD", [], "kept as it is"],
  ["a\nb\nc\nD", [{ diff: 0, hunk: 0, accepted: false }], "a part refused"],
  ["a\nb\nb2\nc\nD", [{ diff: 0, hunk: 0, accepted: true, text: "b\nb2\n" }], "a part edited"],
  ["a\nc\nD\nE", [{ diff: 0, hunk: 0, accepted: true, text: "" }, { diff: 0, hunk: 1, accepted: true, text: "D\nE" }], "a part deleted, and one longer at the end"],
  ["a\nc\nc\nD", [{ diff: 0, hunk: 0, accepted: true, text: "" }, { diff: 0, hunk: 1, accepted: true, text: "c\nD" }], "a part like the line behind it, in one of two ways"],
  ["A\nB\nc\nD", undefined, "another line edited"],
  ["a\nB\nc\n", [{ diff: 0, hunk: 1, accepted: true, text: "" }], "the last part deleted"],
])("%j gives the answers of its parts", (text, answers) => expect(answersFor(diff, 0, text)).toEqual(answers));

test("a part with lines like those that stay is known whole", () => expect(answersFor(blank, 0, blank.newText)).toEqual([]));
test("the part nearest to a line", () => expect(nearest(split(diff, diff.newText), 3)?.proposed).toEqual(["D"]));

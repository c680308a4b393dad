/** The difference of two texts by lines, and its picture. */

import { UNCOLOURED } from "./colours.js";
import { button, h, visible } from "./dom.js";

/** Above this product of lengths the changed middle is shown as one replacement. */
const MOST_CELLS = 4_000_000;
const CONTEXT = 3;
/** Of a longer difference the rest is drawn when somebody wants to see it. */
const MOST_LINES = 2000;
/** Lines that are laid out together, and not at all while they are out of view. */
const BUNDLE = 500;

/** @typedef {{ kind: " " | "+" | "-" | "@", text: string, before?: number, after?: number, hunk?: number }} DiffLine */
/** @typedef {{ oldStart: number, oldEnd: number, newStart: number, newEnd: number }} Hunk lines from 0, ends excluded */

/**
 * Return the lines of both texts: kept, added and removed.
 * @param {string} before
 * @param {string} after
 * @returns {DiffLine[]}
 */
export function compareLines(before, after) {
  const [a, b] = [splitLines(before), splitLines(after)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const kept = (/** @type {string[]} */ texts) => texts.map((text) => /** @type {DiffLine} */ ({ kind: " ", text }));
  const changed = middle(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const lines = kept(a.slice(0, start)).concat(changed, kept(a.slice(a.length - end)));
  let [left, right] = [0, 0];
  for (const line of lines) {
    if (line.kind !== "+") line.before = ++left;
    if (line.kind !== "-") line.after = ++right;
  }
  return lines;
}

/** @param {string} text */
export function splitLines(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The longest common sequence of the two, by the usual table. @param {string[]} a @param {string[]} b @returns {DiffLine[]} */
function middle(a, b) {
  const removed = () => a.map((text) => /** @type {DiffLine} */ ({ kind: "-", text }));
  const added = () => b.map((text) => /** @type {DiffLine} */ ({ kind: "+", text }));
  if (a.length * b.length > MOST_CELLS || a.length === 0 || b.length === 0) return [...removed(), ...added()];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: " ", text: /** @type {string} */ (a[i++]) });
      j++;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: "-", text: /** @type {string} */ (a[i++]) });
    } else lines.push({ kind: "+", text: /** @type {string} */ (b[j++]) });
  }
  return lines;
  /** @param {number} i @param {number} j */
  function at(i, j) {
    return /** @type {number} */ (common[i * width + j]);
  }
}

/**
 * Leave out the kept lines that are far from a change.
 * @param {DiffLine[]} lines
 * @returns {DiffLine[]}
 */
export function foldKept(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind === " ") return;
    near.fill(1, Math.max(0, index - CONTEXT), index + CONTEXT + 1);
  });
  /** @type {DiffLine[]} */
  const folded = [];
  let skipped = 0;
  const mark = () => {
    if (skipped > 0) folded.push({ kind: "@", text: `${skipped} unchanged` });
    skipped = 0;
  };
  lines.forEach((line, index) => {
    if (!near[index]) return void skipped++;
    mark();
    folded.push(line);
  });
  mark();
  return folded;
}

/** @param {DiffLine[]} lines */
export function countChanges(lines) {
  const count = (/** @type {string} */ kind) => lines.filter((line) => line.kind === kind).length;
  return { added: count("+"), removed: count("-") };
}

/**
 * Return the lines of a unified diff.
 * @param {string} text
 * @returns {DiffLine[]}
 */
export function readUnified(text) {
  /** @type {DiffLine[]} */
  const lines = [];
  for (const line of splitLines(text)) {
    const kind = line[0];
    if (line.startsWith("---") || line.startsWith("+++")) continue;
    if (line.startsWith("@@")) lines.push({ kind: "@", text: line.replace(/^@@ -(\d+).*$/, "line $1") });
    else if (kind === "+" || kind === "-" || kind === " ") lines.push({ kind, text: line.slice(1) });
  }
  return lines;
}

/**
 * Return the lines of both texts by the hunks that the daemon found, each of which knows its hunk.
 * @param {string} before @param {string} after @param {Hunk[]} hunks
 * @returns {DiffLine[]}
 */
export function linesOfHunks(before, after, hunks) {
  const [a, b] = [splitLines(before), splitLines(after)];
  /** @type {DiffLine[]} */
  const lines = [];
  let [left, right] = [0, 0];
  const keep = (/** @type {number} */ until) => {
    while (left < until) lines.push({ kind: " ", text: a[left] ?? "", before: ++left, after: ++right });
  };
  hunks.forEach((each, hunk) => {
    keep(each.oldStart);
    while (left < each.oldEnd) lines.push({ kind: "-", text: a[left] ?? "", before: ++left, hunk });
    while (right < each.newEnd) lines.push({ kind: "+", text: b[right] ?? "", after: ++right, hunk });
  });
  keep(a.length);
  return lines;
}

const READ_ALOUD = { "+": "added: ", "-": "removed: ", " ": "", "@": "" };

/**
 * Return the picture of a difference. While a part of it is not shown, it holds a button of the class `unshown`.
 * @param {DiffLine[]} lines
 * @param {string} label
 * @param {string} path the file, which tells the language; empty for none
 * @param {(hunk: number) => Node} [bar] what stands above the lines of a hunk
 */
export function diffView(lines, label, path, bar) {
  /** @type {number | undefined} */
  let hunk;
  const draw = (/** @type {DiffLine[]} */ some) => some.flatMap((line) => {
    const isNext = bar !== undefined && line.hunk !== undefined && line.hunk !== hunk;
    hunk = line.hunk ?? hunk;
    return isNext ? [bar(/** @type {number} */ (line.hunk)), lineView(line)] : [lineView(line)];
  });
  const view = h("div", { class: path ? `diff ${UNCOLOURED}` : "diff", "data-path": path || null, role: "group", "aria-label": label, tabindex: "0" }, draw(lines.slice(0, MOST_LINES)));
  if (lines.length > MOST_LINES) {
    const rest = button(`Show the other ${(lines.length - MOST_LINES).toLocaleString()} lines`, () => {
      for (let at = MOST_LINES; at < lines.length; at += BUNDLE) view.append(h("div", { class: "diff-bundle" }, draw(lines.slice(at, at + BUNDLE))));
      rest.remove();
      view.focus();
    }, "unshown");
    view.append(rest);
  }
  return view;
}

/** @param {DiffLine} line */
function lineView({ kind, text, before, after, hunk }) {
  return h("div", { "data-hunk": hunk === undefined ? null : String(hunk), class: `diff-line ${{ "+": "added", "-": "removed", " ": "kept", "@": "fold" }[kind]}` },
    h("span", { class: "diff-number", "aria-hidden": "true" }, String((kind === "-" ? before : after) ?? "")),
    h("span", { class: "diff-sign", "aria-hidden": "true" }, kind === "@" ? "⋯" : kind),
    h("span", { class: "visually-hidden" }, READ_ALOUD[kind]),
    h("span", { class: "diff-text" }, visible(text.replace(/\r$/, "")) || " "));
}

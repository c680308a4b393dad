/**
 * Markdown as it streams: blocks that are complete are drawn once and never again, only the last one changes.
 *
 * The parser reads lines. A block ends where the next one begins, so every block but the last is final, whatever comes
 * later. The text before the last block is therefore let go. In the last block a mark that is not closed yet counts as
 * closed at the end, so that `**bo` is bold at once and does not flicker.
 *
 * Its work is linear in the length of a text, whatever the text: an answer is written by a model, and one that makes
 * the page stop is an attack. So no pattern here has two parts side by side that can match the same characters, each
 * mark or bracket that has no partner is looked for once, and nesting ends at a depth.
 *
 * It is safe by construction: nodes are built one by one, HTML is shown as text, pictures are links, and a link is
 * followed only to http and https. Other links are files, which the home opens.
 */

import { UNCOLOURED } from "./colours.js";
import { h, readable, visible } from "./dom.js";

const MOST_DEPTH = 12;
/** Blocks of a long text are laid out by so many; those out of view are not laid out at all. */
const BUNDLE = 32;
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=\s)/;
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:(\s+)(.*))?$/s;
const FILE = /^(?:[\w@.~-]*[\\/])*[\w@.~-]+\.\w{1,8}(?::(\d+))?(?:[-:]\d+)?$/;
const WEB = /https?:\/\/[^\s<>"'`]+/y;
/** The parts of the target of a link, which has at most so many characters. */
const MOST_TARGET = 4096;
const BLANKS = /\s*/y;
const ANGLED = /<([^<>\n]*)>/y;
const BARE = /(?:[^\s()\\]|\\.|\([^\s()]*\))*/y;
const QUOTED = /"[^"]*"|'[^']*'/y;

/** @typedef {{ openFile?: ((path: string, line?: number) => void) | undefined, openLink?: ((url: string) => void) | undefined }} Links */

/**
 * @typedef {object} Block
 * @property {"heading" | "code" | "rule" | "quote" | "list" | "table" | "paragraph"} type
 * @property {number} start the index of its first line
 * @property {string[]} lines its content, marks of quotes and fences left out
 * @property {string} [info] the level of a heading, the language of code
 * @property {boolean} [closed] whether a fence was closed
 */

/** A text that grows, and its picture. */
export class MarkdownView {
  element = h("div", { class: "markdown" });
  #text = "";
  #from = 0;
  /** @type {Element | null} */
  #open = null;
  /** Where the next block goes. @type {Element} */
  #tail = this.element;

  /** @param {Links} links */
  constructor(links) {
    this.links = links;
  }

  /**
   * Show `text`; where it goes on from the text before, only its end is drawn.
   * @param {string} text
   * @param {boolean} isWhole whether nothing more will come
   */
  update(text, isWhole) {
    if (!text.startsWith(this.#text)) {
      this.element.replaceChildren();
      this.#tail = this.element;
      this.#from = 0;
      this.#open = null;
    }
    this.#text = text;
    const source = text.slice(this.#from);
    const lines = source.split("\n");
    const blocks = readBlocks(lines);
    blocks.forEach((block, index) => {
      const isOpen = index === blocks.length - 1 && !isWhole;
      const old = index === 0 ? this.#open : null;
      if (old !== null && isOpen && block.type === "code" && old.matches(".code-block") && growCode(old, block)) return;
      const made = drawBlock(block, { links: this.links, isOpen, depth: 0 });
      if (old === null && this.#tail.childElementCount >= BUNDLE) {
        this.#tail = h("div", { class: "bundle" });
        this.element.append(this.#tail);
      }
      if (old === null) this.#tail.append(made);
      else old.replaceWith(made);
      this.#open = made;
    });
    const last = blocks.at(-1);
    if (last !== undefined && blocks.length > 1) {
      this.#from += lines.slice(0, last.start).reduce((chars, line) => chars + line.length + 1, 0);
    }
  }
}

/**
 * Return a picture of a whole text.
 * @param {string} text
 * @param {Links} [links]
 */
export function markdown(text, links = {}) {
  const view = new MarkdownView(links);
  view.update(text, true);
  return view.element;
}

/** @param {string[]} lines @returns {Block[]} */
export function readBlocks(lines) {
  /** @type {Block[]} */
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (lineAt(lines, at).trim() === "") at++;
    else {
      const block = readBlock(lines, at);
      blocks.push(block.block);
      at = block.end;
    }
  }
  return blocks;
}

/** @param {string[]} lines @param {number} at */
function lineAt(lines, at) {
  return lines[at] ?? "";
}

/** @param {string[]} lines @param {number} start @returns {{ block: Block, end: number }} */
function readBlock(lines, start) {
  const first = lineAt(lines, start);
  const fence = FENCE.exec(first);
  if (fence !== null) return readFence(lines, start, fence[1] ?? "", fence[2] ?? "");
  const heading = HEADING.exec(first);
  if (heading !== null) {
    return { block: { type: "heading", start, lines: [headingText(first.slice(heading[0].length))], info: String(heading[1]?.length) }, end: start + 1 };
  }
  if (RULE.test(first)) return { block: { type: "rule", start, lines: [] }, end: start + 1 };
  if (QUOTE.test(first)) {
    const end = findEnd(lines, start + 1, (line) => QUOTE.test(line) || (line.trim() !== "" && !startsBlock(line)));
    return { block: { type: "quote", start, lines: lines.slice(start, end).map((line) => line.replace(QUOTE, "")) }, end };
  }
  if (ITEM.test(first)) return readList(lines, start);
  if (first.includes("|") && isDelimiters(lineAt(lines, start + 1))) {
    const end = findEnd(lines, start + 2, (line) => line.includes("|") && !startsBlock(line));
    if (lineAt(lines, start + 1).includes("|") || cells(first).length === 1) {
      return { block: { type: "table", start, lines: lines.slice(start, end) }, end };
    }
  }
  const end = findEnd(lines, start + 1, (line, index) => line.trim() !== "" && !startsBlock(line) && !startsTable(lines, index));
  return { block: { type: "paragraph", start, lines: lines.slice(start, end) }, end };
}

/** @param {string[]} lines @param {number} at */
function startsTable(lines, at) {
  return lineAt(lines, at).includes("|") && lineAt(lines, at + 1).includes("|") && isDelimiters(lineAt(lines, at + 1));
}

/** Whether a line is what stands below the head of a table. @param {string} line */
function isDelimiters(line) {
  return line.includes("-") && cells(line).every((cell) => /^:?-+:?$/.test(cell));
}

/** The text of a heading, without the marks that may close it. @param {string} rest */
function headingText(rest) {
  const text = rest.trim();
  let end = text.length;
  while (text[end - 1] === "#") end--;
  return end === 0 || /\s/.test(text[end - 1] ?? "") ? text.slice(0, end).trimEnd() : text;
}

/** @param {string} line */
function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

/** @param {string[]} lines @param {number} from @param {(line: string, index: number) => boolean} goesOn */
function findEnd(lines, from, goesOn) {
  let end = from;
  while (end < lines.length && goesOn(lineAt(lines, end), end)) end++;
  return end;
}

/** @param {string[]} lines @param {number} start @param {string} mark @param {string} info */
function readFence(lines, start, mark, info) {
  const close = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}\\s*$`);
  const end = findEnd(lines, start + 1, (line) => !close.test(line));
  const closed = end < lines.length;
  /** @type {Block} */
  const block = { type: "code", start, lines: lines.slice(start + 1, end), info: info.trim().split(/\s/)[0] ?? "", closed };
  return { block, end: closed ? end + 1 : end };
}

/** A list goes on over empty lines, as long as an item or an indented line follows. @param {string[]} lines @param {number} start */
function readList(lines, start) {
  let end = start + 1;
  for (let at = end; at < lines.length; at++) {
    const line = lineAt(lines, at);
    if (line.trim() === "") continue;
    const isAfterGap = at > end;
    const goesOn = ITEM.test(line) && !RULE.test(line) ? true : /^ {2,}|^\t/.test(line) || (!isAfterGap && !startsBlock(line));
    if (!goesOn) break;
    end = at + 1;
  }
  return { block: /** @type {Block} */ ({ type: "list", start, lines: lines.slice(start, end) }), end };
}

/** @typedef {{ links: Links, isOpen: boolean, depth: number }} Drawing */

/** @param {Block} block @param {Drawing} drawing @returns {Element} */
function drawBlock(block, drawing) {
  const text = () => block.lines.map((line) => line.trimStart()).join("\n");
  switch (block.type) {
    case "heading":
      // Below the headings of the page itself.
      return h(/** @type {"h3"} */ (`h${Math.min(6, Number(block.info) + 2)}`), { class: `heading-${block.info}` }, inline(text(), drawing));
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, drawBlocks(block.lines, drawing));
    case "list":
      return drawList(block.lines, drawing);
    case "table":
      return drawTable(block.lines, drawing);
    case "code":
      return codeBlock(block.lines.join("\n"), block.info ?? "", !drawing.isOpen);
    case "paragraph":
      return h("p", {}, inline(text(), drawing));
  }
}

/** @param {string[]} lines @param {Drawing} drawing @returns {(Node | string)[]} */
function drawBlocks(lines, drawing) {
  if (drawing.depth >= MOST_DEPTH) return [readable(lines.join("\n"))];
  const blocks = readBlocks(lines);
  return blocks.map((block, index) =>
    drawBlock(block, { ...drawing, depth: drawing.depth + 1, isOpen: drawing.isOpen && index === blocks.length - 1 }),
  );
}

/**
 * Return code with its language and a button that copies it.
 * @param {string} text
 * @param {string} language
 * @param {boolean} [isWhole] whether it may be coloured: nothing more will come
 */
export function codeBlock(text, language, isWhole = false) {
  const code = h("code", isWhole && language ? { class: UNCOLOURED, "data-language": language } : {}, readable(text));
  const copy = h("button", { type: "button", class: "copy", onclick: () => void copyText(code.textContent ?? "", copy) }, "Copy");
  const head = h("div", { class: "code-head" }, h("span", {}, language || "text"), copy);
  return h("div", { class: "code-block" }, head, h("pre", { tabindex: "0" }, code));
}

/** @param {string} text @param {HTMLElement} [shown] */
export async function copyText(text, shown) {
  await navigator.clipboard.writeText(text);
  if (shown === undefined) return;
  const before = shown.textContent;
  shown.textContent = "Copied";
  setTimeout(() => (shown.textContent = before), 1200);
}

/** Add to code that grows, without drawing the rest of it again. @param {Element} old @param {Block} block */
function growCode(old, block) {
  const node = old.querySelector("code")?.firstChild;
  const text = readable(block.lines.join("\n"));
  if (!(node instanceof Text) || !text.startsWith(node.data)) return false;
  node.appendData(text.slice(node.data.length));
  return true;
}

/** @param {string[]} lines @param {Drawing} drawing */
function drawList(lines, drawing) {
  const first = ITEM.exec(lineAt(lines, 0));
  const isOrdered = /\d/.test(first?.[2] ?? "");
  const indent = (first?.[1] ?? "").length;
  /** @type {string[][]} */
  const items = [];
  let width = 0;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item !== null && (item[1] ?? "").length <= indent + 1) {
      width = (item[1] ?? "").length + (item[2] ?? "").length + Math.min(4, Math.max(1, (item[3] ?? "").length));
      items.push([item[4] ?? ""]);
    } else {
      const spaces = line.length - line.trimStart().length;
      items.at(-1)?.push(line.slice(Math.min(spaces, width)));
    }
  }
  const made = items.map((item, index) => {
    const task = /^\[([ xX])\]\s+/.exec(item[0] ?? "");
    if (task !== null) item[0] = (item[0] ?? "").slice(task[0].length);
    const isLoose = item.some((line, at) => line.trim() === "" && at < item.length - 1);
    const content = drawBlocks(item, { ...drawing, isOpen: drawing.isOpen && index === items.length - 1 });
    const parts = content.flatMap((node) => (!isLoose && node instanceof HTMLParagraphElement ? [...node.childNodes] : [node]));
    if (task === null) return h("li", {}, parts);
    const isDone = task[1] !== " ";
    return h("li", { class: "task" }, h("input", { type: "checkbox", disabled: true, checked: isDone, "aria-label": isDone ? "done" : "to do" }), parts);
  });
  if (!isOrdered) return h("ul", {}, made);
  const start = Number.parseInt(first?.[2] ?? "1", 10);
  return h("ol", { start: start === 1 ? undefined : start }, made);
}

/** @param {string} line @returns {string[]} */
function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** @param {string[]} lines @param {Drawing} drawing */
function drawTable(lines, drawing) {
  const sides = cells(lineAt(lines, 1)).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  // The cells that a row leaves out are one wide cell: a short text must not make as many cells as rows times columns.
  const row = (/** @type {string} */ line, /** @type {"th" | "td"} */ tag) => {
    const texts = cells(line).slice(0, sides.length);
    const left = sides.length - texts.length;
    return h("tr", {}, texts.map((text, index) => h(tag, { class: `align-${sides[index]}` }, inline(text, drawing))), left > 0 && h(tag, { colspan: left }));
  };
  const head = h("thead", {}, row(lineAt(lines, 0), "th"));
  const body = h("tbody", {}, lines.slice(2).map((line) => row(line, "td")));
  return h("div", { class: "table", tabindex: "0" }, h("table", {}, head, body));
}

const MARKS = /** @type {const} */ ([
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
]);

/**
 * Return the nodes of one run of text.
 * @param {string} text
 * @param {Drawing} drawing
 * @returns {(Node | string)[]}
 */
export function inline(text, drawing) {
  /** @type {(Node | string)[]} */
  const nodes = [];
  const reading = new Reading();
  let plain = "";
  let at = 0;
  const add = (/** @type {Node} */ node, /** @type {number} */ end) => {
    if (plain) nodes.push(readable(plain));
    plain = "";
    nodes.push(node);
    at = end;
  };
  const inside = (/** @type {string} */ part) =>
    drawing.depth >= MOST_DEPTH ? [readable(part)] : inline(part, { ...drawing, depth: drawing.depth + 1 });
  while (at < text.length) {
    const found = readSpan(text, at, drawing, reading);
    if (found === null) plain += text[at++];
    else if (found.type === "text") {
      plain += found.text;
      at = found.end;
    } else if (found.type === "code") add(inlineCode(found.text, drawing.links), found.end);
    else if (found.type === "break") add(h("br"), found.end);
    else if (found.type === "address") add(link(found.text, [readable(found.text)], drawing.links), found.end);
    else if (found.type === "link") add(link(found.target, inside(found.text), drawing.links), found.end);
    else add(h(found.type, {}, inside(found.text)), found.end);
  }
  if (plain) nodes.push(readable(plain));
  return nodes;
}

/** What is known about one run of text, so that nothing in it is looked for twice. */
class Reading {
  /** Marks that are not closed any more. @type {Set<string>} */
  missing = new Set();
  /** @type {Map<number, number> | null} */
  #closers = null;

  /** The bracket that closes the one at `open`. @param {string} text @param {number} open @returns {number | undefined} */
  closer(text, open) {
    if (this.#closers === null) {
      this.#closers = new Map();
      const opened = [];
      for (let at = 0; at < text.length; at++) {
        if (text[at] === "\\") at++;
        else if (text[at] === "[") opened.push(at);
        else if (text[at] === "]" && opened.length > 0) this.#closers.set(/** @type {number} */ (opened.pop()), at);
      }
    }
    return this.#closers.get(open);
  }
}

/**
 * @typedef {{ type: "text" | "code" | "break" | "strong" | "em" | "del" | "address", text: string, end: number }
 *   | { type: "link", text: string, target: string, end: number }} Span
 */

/** @param {string} text @param {number} at @param {Drawing} drawing @param {Reading} reading @returns {Span | null} */
function readSpan(text, at, drawing, reading) {
  const char = text[at];
  switch (char) {
    case "\\":
      if (text[at + 1] === "\n") return { type: "break", text: "", end: at + 2 };
      return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { type: "text", text: text[at + 1] ?? "", end: at + 2 } : null;
    case "\n":
      return text.endsWith("  ", at) ? { type: "break", text: "", end: at + 1 } : null;
    case "`":
      return readCode(text, at, drawing.isOpen, reading.missing);
    case "!":
    case "[":
      return readLink(text, at, reading);
    case "<": {
      WEB.lastIndex = at + 1;
      const url = WEB.exec(text)?.[0];
      return url !== undefined && text[at + 1 + url.length] === ">" ? { type: "address", text: url, end: at + url.length + 2 } : null;
    }
    case "h":
      return readAddress(text, at);
    case "*":
    case "_":
    case "~":
      return readMarked(text, at, drawing.isOpen, reading.missing);
    default:
      return null;
  }
}

/** @param {string} text @param {number} at @param {boolean} isOpen @param {Set<string>} missing @returns {Span} */
function readCode(text, at, isOpen, missing) {
  const run = /^`+/.exec(text.slice(at, at + 64))?.[0] ?? "`";
  const from = at + run.length;
  let end = missing.has(run) ? -1 : text.indexOf(run, from);
  while (end !== -1 && (text[end + run.length] === "`" || text[end - 1] === "`")) end = text.indexOf(run, end + run.length + 1);
  if (end === -1) {
    missing.add(run);
    if (!isOpen) return { type: "text", text: run, end: from };
    return { type: "code", text: text.slice(from), end: text.length };
  }
  const code = text.slice(from, end).replaceAll("\n", " ");
  return { type: "code", text: code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "" ? code.slice(1, -1) : code, end: end + run.length };
}

/** @param {string} text @param {number} at @param {boolean} isOpen @param {Set<string>} missing @returns {Span | null} */
function readMarked(text, at, isOpen, missing) {
  const found = MARKS.find(([mark]) => text.startsWith(mark, at));
  if (found === undefined) return null;
  const [mark, type] = found;
  const from = at + mark.length;
  const isWord = (/** @type {number} */ index) => /\w/.test(text[index] ?? "");
  const literal = /** @type {Span} */ ({ type: "text", text: mark, end: from });
  if (/\s/.test(text[from] ?? " ") || (mark.includes("_") && isWord(at - 1))) return literal;
  if (!missing.has(mark)) {
    for (let end = text.indexOf(mark, from); end !== -1; end = text.indexOf(mark, end + 1)) {
      // Of three marks in a row the first closes what is inside.
      if (mark.length === 2 && text[end + 2] === mark[0]) end++;
      const isDouble = mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark);
      const isInside = mark.includes("_") && isWord(end + mark.length);
      if (end > from && !isDouble && !isInside && !/\s/.test(text[end - 1] ?? " ") && text[end - 1] !== "\\") {
        return { type, text: text.slice(from, end), end: end + mark.length };
      }
    }
    missing.add(mark);
  }
  return isOpen && mark.length === 2 ? { type, text: text.slice(from), end: text.length } : literal;
}

/** @param {string} text @param {number} at @param {Reading} reading @returns {Span | null} */
function readLink(text, at, reading) {
  const isPicture = text[at] === "!";
  const open = isPicture ? at + 1 : at;
  const close = text[open] === "[" ? reading.closer(text, open) : undefined;
  if (close === undefined || text[close + 1] !== "(") return null;
  const found = readTarget(text.slice(close + 2, close + MOST_TARGET));
  if (found === null) return null;
  const label = text.slice(open + 1, close);
  return { type: "link", text: label || (isPicture ? "picture" : ""), target: found.target, end: close + 2 + found.length };
}

/** The target of a link, with a title that is not used, up to its closing bracket. @param {string} text */
function readTarget(text) {
  let at = 0;
  const take = (/** @type {RegExp} */ pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    at += found?.[0].length ?? 0;
    return found;
  };
  take(BLANKS);
  const target = take(ANGLED)?.[1] ?? take(BARE)?.[0] ?? "";
  if (take(BLANKS)?.[0] !== "" && take(QUOTED) !== null) take(BLANKS);
  return text[at] === ")" ? { target, length: at + 1 } : null;
}

/** @param {string} text @param {number} at @returns {Span | null} */
function readAddress(text, at) {
  if (/\w/.test(text[at - 1] ?? "")) return null;
  WEB.lastIndex = at;
  const found = WEB.exec(text)?.[0];
  if (found === undefined) return null;
  let end = found.length;
  while (".,;:!?*_~".includes(found[end - 1] ?? " ")) end--;
  if (found[end - 1] === ")" && !found.slice(0, end).includes("(")) while (found[end - 1] === ")") end--;
  const url = found.slice(0, end);
  return { type: "address", text: url, end: at + end };
}

/** @param {string} text @param {Links} links */
function inlineCode(text, { openFile }) {
  const file = openFile === undefined ? null : FILE.exec(text);
  return file === null ? h("code", {}, readable(text)) : h("code", {}, fileLink(text, [readable(text)], openFile));
}

/** @param {string} target @param {(Node | string)[]} content @param {Links} links */
function link(target, content, { openFile, openLink }) {
  if (/^https?:\/\//i.test(target)) {
    const follow = openLink && ((/** @type {Event} */ event) => (event.preventDefault(), openLink(target)));
    return h("a", { href: target, target: "_blank", rel: "noopener noreferrer", title: visible(target), onclick: follow }, content);
  }
  const isFile = /^file:/i.test(target) || !/^[a-z][a-z0-9+.-]*:/i.test(target);
  return isFile && openFile !== undefined && target !== "" ? fileLink(target, content, openFile) : h("span", { title: visible(target) }, content);
}

/** @param {string} target @param {(Node | string)[]} content @param {Links["openFile"]} openFile */
function fileLink(target, content, openFile) {
  const [, path = target, line] = /^(.*?)(?:(?::|#L)(\d+).*)?$/s.exec(target) ?? [];
  const open = (/** @type {Event} */ event) => (event.preventDefault(), openFile?.(path, line === undefined ? undefined : Number(line)));
  return h("a", { href: "#", class: "file-link", title: visible(target), onclick: open }, content);
}

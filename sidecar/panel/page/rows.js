/** The pictures of rows. A row that is drawn again keeps its element where it can, and its open parts in any case. */

import { compareLines, countChanges, diffView, foldKept } from "./diff.js";
import { button, h, icon, iconButton, plural, readable, shortPath, visible } from "./dom.js";
import { MarkdownView, copyText } from "./markdown.js";

/** @typedef {import("./transcript.js").Row} Row */
/** @typedef {import("./transcript.js").ToolRow} ToolRow */

/**
 * @typedef {object} RowActions
 * @property {string} folder
 * @property {import("./markdown.js").Links} links
 * @property {((path: string, before: string, after: string) => void) | undefined} openDiff
 * @property {(row: import("./transcript.js").UserRow) => void} rewind
 * @property {(row: import("./transcript.js").UserRow) => void} fork
 * @property {(row: import("./transcript.js").CompactionRow) => HTMLElement} drawCompaction
 * @property {(text: string) => void} again sends a prompt once more
 * @property {(sid: string) => void} openChild
 * @property {(sid: string) => Promise<Row[]>} readChild
 */

const OUTPUT_CHARS = 20_000;
const STOP_REASONS = /** @type {Record<string, string>} */ ({
  cancelled: "Stopped",
  max_tokens: "The answer was cut off at the most tokens that the model may write",
  refusal: "The model refused to answer",
  budget: "A budget is used up",
});
const TOOL_ICONS = /** @type {Record<string, import("./dom.js").IconName>} */ ({
  read: "file", edit: "pencil", delete: "trash", move: "file", search: "search", execute: "terminal", fetch: "globe", think: "bulb",
});

export class RowPainter {
  /** @type {WeakMap<HTMLElement, MarkdownView>} */
  #views = new WeakMap();
  /** Rows that the user has opened or closed. @type {Map<string, boolean>} */
  #opened = new Map();

  /** @param {RowActions} actions */
  constructor(actions) {
    this.actions = actions;
  }

  /** @param {Row} row @param {HTMLElement | undefined} old @returns {HTMLElement} */
  draw(row, old) {
    switch (row.type) {
      case "user":
        return this.#user(row);
      case "answer":
        return this.#answer(row, old);
      case "thinking":
        return this.#thinking(row, old);
      case "tool":
        return this.#tool(row);
      case "compaction":
        return this.actions.drawCompaction(row);
      case "restored":
        return this.#restored(row);
      case "notice":
        return h("div", { class: `row notice ${row.severity}`, role: "note" },
          icon(row.severity === "info" ? "flag" : "warn"), h("div", {}, h("strong", {}, readable(row.title)), row.text ? h("div", {}, readable(row.text)) : null, row.again ? this.#again(row.again) : null));
      case "end":
        return h("div", { class: "row end" }, [STOP_REASONS[row.stopReason] ?? (row.stopReason === "end_turn" ? "" : row.stopReason), duration(row.durationMs)].filter(Boolean).join(" · "), row.again !== "" && this.#again(row.again));
    }
  }

  /** A guess of a row's height, in pixels. @param {Row} row @returns {number} */
  guess(row) {
    switch (row.type) {
      case "user":
        return 56 + 20 * Math.ceil(row.text.length / 90);
      case "answer":
        return 24 + 22 * Math.ceil(row.text.length / 90);
      case "compaction":
        return 150;
      default:
        return 34;
    }
  }

  /** @param {import("./transcript.js").UserRow} row */
  #user(row) {
    const at = row.at > 0 ? new Date(row.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "";
    const actions = row.nodeId === null ? null : h("div", { class: "row-actions" },
      h("span", { class: "row-time" }, at),
      iconButton("back", "Go back to before this prompt", () => this.actions.rewind(row)),
      iconButton("fork", "Fork from here", () => this.actions.fork(row)),
      iconButton("copy", "Copy the prompt", () => void copyText(row.text)));
    const links = row.links.map((uri) => h("span", { class: "chip" }, icon("file"), shortPath(uri, this.actions.folder)));
    const images = row.images.map((src) => h("img", { src, alt: "attached picture", class: "attached" }));
    return h("article", { class: "row user", "aria-label": "You" },
      h("div", { class: "bubble" }, h("div", { class: "prompt-text" }, readable(row.text)), links.length + images.length > 0 && h("div", { class: "chips" }, links, images)), actions);
  }

  /** @param {import("./transcript.js").AnswerRow} row @param {HTMLElement | undefined} old */
  #answer(row, old) {
    const view = (old && this.#views.get(old)) ?? new MarkdownView(this.actions.links);
    view.update(row.text, row.done);
    const element = old ?? h("article", { class: "row answer", "aria-label": "Answer" }, view.element,
      h("div", { class: "row-actions" }, iconButton("copy", "Copy the answer", () => void copyText(row.text))));
    element.classList.toggle("streaming", !row.done);
    this.#views.set(element, view);
    return element;
  }

  /** @param {string} text */
  #again(text) {
    const pressed = button("Send again", () => ((pressed.disabled = true), this.actions.again(text)), "small");
    return pressed;
  }

  /** @param {import("./transcript.js").ThinkingRow} row @param {HTMLElement | undefined} old */
  #thinking(row, old) {
    const known = old && this.#views.get(old);
    if (old !== undefined && known !== undefined) {
      known.update(row.text, row.done);
      old.classList.toggle("streaming", !row.done);
      const line = old.querySelector(".fold-more");
      if (line !== null) line.textContent = row.done ? firstLine(row.text) : lastLine(row.text);
      return old;
    }
    const view = new MarkdownView(this.actions.links);
    view.update(row.text, row.done);
    const element = this.#fold(row.id, "row thinking", false, [icon("bulb"), h("span", { class: "fold-title" }, "Thinking"), h("span", { class: "fold-more" }, row.done ? firstLine(row.text) : lastLine(row.text))], () => view.element);
    element.classList.toggle("streaming", !row.done);
    this.#views.set(element, view);
    return element;
  }

  /** @param {ToolRow} row */
  #tool(row) {
    const changes = row.diffs.map((diff) => {
      const lines = compareLines(diff.oldText ?? "", diff.newText);
      return { ...diff, lines: diff.isPart ? lines.map(({ kind, text }) => ({ kind, text })) : lines };
    });
    const counts = changes.map(({ lines }) => countChanges(lines));
    const [added, removed] = [counts.reduce((sum, each) => sum + each.added, 0), counts.reduce((sum, each) => sum + each.removed, 0)];
    const state = !row.done ? "running" : row.isError ? "failed" : "done";
    const label = { running: "running", failed: "failed", done: "done" }[state];
    const head = [
      icon(TOOL_ICONS[row.kind] ?? "tool"),
      h("span", { class: "fold-title" }, visible(row.title)),
      changes.length > 0 && h("span", { class: "changes", "aria-label": `${added} lines added, ${removed} removed` }, h("span", { class: "plus" }, `+${added}`), h("span", { class: "minus" }, `−${removed}`)),
      h("span", { class: "fold-more" }, row.done && changes.length === 0 ? summaryLine(row.output) : ""),
      h("span", { class: `state ${state}`, role: "img", "aria-label": label, title: label }, state === "running" ? h("span", { class: "spinner" }) : icon(row.isError ? "cross" : "check")),
    ];
    return this.#fold(row.id, `row tool ${state}`, changes.length > 0 && !row.isError, head, () => this.#toolBody(row, changes));
  }

  /** @param {ToolRow} row @param {{ path: string, oldText: string | null, newText: string, lines: import("./diff.js").DiffLine[] }[]} changes */
  #toolBody(row, changes) {
    const { openDiff, links } = this.actions;
    const diffs = changes.map(({ path, oldText, newText, lines }) => h("div", { class: "change" },
      h("div", { class: "code-head" }, h("span", { class: "path" }, shortPath(path, this.actions.folder)),
        openDiff && h("button", { type: "button", class: "copy", onclick: () => openDiff(path, oldText ?? "", newText) }, "Open diff")),
      diffView(foldKept(lines), `Changes of ${path}`, path)));
    const places = links.openFile === undefined ? [] : row.locations.map(({ path, line }) =>
      h("button", { type: "button", class: "link", onclick: () => links.openFile?.(path, line) }, shortPath(path, this.actions.folder)));
    const input = typeof row.input === "object" && row.input !== null && row.diffs.length === 0 ? Object.entries(row.input) : [];
    const given = input.length > 0 && h("dl", { class: "input" }, input.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(typeof value === "string" ? value : (JSON.stringify(value) ?? "")))]));
    const cut = row.output.length > OUTPUT_CHARS ? `\n… ${(row.output.length - OUTPUT_CHARS).toLocaleString()} more characters` : "";
    const output = row.output !== "" && (row.diffs.length === 0 || row.isError) && h("pre", { class: "output", tabindex: "0" }, readable(row.output.slice(0, OUTPUT_CHARS)) + cut);
    if (row.child !== undefined) return h("div", {}, given, this.#steps(row.child), diffs, output);
    return h("div", {}, places.length > 0 && h("div", { class: "places" }, places), given, diffs, output);
  }

  /** The steps of a sub-agent, as its session has them now. @param {string} sid */
  #steps(sid) {
    const rows = h("div", { class: "child-rows" });
    void this.actions.readChild(sid).then((found) => rows.append(...found.map((each) => this.draw({ ...each, id: `${sid}:${each.id}` }, undefined))), () => {});
    return h("div", { class: "child" }, h("button", { type: "button", class: "link", onclick: () => this.actions.openChild(sid) }, "Open the sub-agent"), rows);
  }

  /** @param {import("./transcript.js").RestoredRow} row */
  #restored(row) {
    const head = [icon("file"), h("span", { class: "fold-title" }, `${plural(row.files.length, "file")} restored as ${row.files.length === 1 ? "it is" : "they are"} now`)];
    return this.#fold(row.id, "row tool done", false, head, () => h("ul", { class: "files" }, row.files.map((file) =>
      h("li", {}, shortPath(file.uri, this.actions.folder), h("span", { class: "dim" }, ` ${file.tokens.toLocaleString()} tokens, from the ${file.source === "buffer" ? "unsaved buffer" : "disk"}`)))));
  }

  /**
   * A part that opens and closes; its content is made when it is opened first.
   * @param {string} id @param {string} classes @param {boolean} isOpen @param {(Node | string | false)[]} head @param {() => Node} body
   */
  #fold(id, classes, isOpen, head, body) {
    const open = this.#opened.get(id) ?? isOpen;
    const content = h("div", { class: "fold-body" });
    if (open) content.append(body());
    const details = h("details", { class: classes, open }, h("summary", {}, h("span", { class: "arrow" }, icon("right")), head), content);
    details.addEventListener("toggle", () => {
      if (details.open && content.childNodes.length === 0) content.append(body());
      if (details.open !== (this.#opened.get(id) ?? isOpen)) this.#opened.set(id, details.open);
    });
    return details;
  }
}

/** @param {string} text */
function firstLine(text) {
  return readable(text.trimStart().split("\n", 1)[0]?.slice(0, 200) ?? "");
}

/** @param {string} text */
function lastLine(text) {
  return readable(text.trimEnd().slice(-160).split("\n").at(-1) ?? "");
}

/** @param {string} text */
function summaryLine(text) {
  const lines = text.trim() === "" ? 0 : text.trim().split("\n").length;
  return lines > 1 ? `${lines} lines` : firstLine(text);
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

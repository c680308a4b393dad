/** Questions for permission: cards above the input that stay until they are answered, here or elsewhere. */

import { compareLines, diffView, foldKept, linesOfHunks, splitLines } from "./diff.js";
import { button, fill, h, icon, shortPath, visible } from "./dom.js";

/** @typedef {import("../../../clients/typescript/src/protocol").PermissionRequest} PermissionRequest */

const KEYS = /** @type {Record<string, string>} */ ({ allow_once: "y", allow_always: "A", reject_once: "n" });
/** An answer by a key counts only after this time, so that words that were being typed never allow anything. */
const PAUSE_MS = 700;
/** Nor does a key count that another one precedes or follows within this time: those are words. */
const ALONE_MS = 300;

export class Permissions {
  /** @type {Map<string, PermissionRequest>} */
  #asked = new Map();
  #shownAt = 0;
  #keyAt = 0;
  #isFirstKey = true;
  /** @type {{ key: string, timer: ReturnType<typeof setTimeout>, answer: () => void } | null} a key that answers unless another one follows */
  #pending = null;

  /** @param {{ home: import("./home.js").Home, folder: () => string, sid: () => string, changed: (count: number) => void, typed: (text: string) => void, isTyping: () => boolean, answered: () => void }} options */
  constructor(options) {
    this.options = options;
    document.addEventListener("keydown", (event) => this.#noteKey(event), true);
    this.element = h("div", { class: "permissions", role: "region", "aria-label": "Questions for permission", "aria-live": "assertive" });
  }

  get count() {
    return this.#asked.size;
  }

  /** @param {PermissionRequest} request */
  ask(request) {
    this.#asked.set(request.permissionId, request);
    this.#draw();
  }

  /** @param {string} permissionId */
  resolve(permissionId) {
    if (this.#asked.delete(permissionId)) this.#draw();
  }

  clear() {
    this.#asked.clear();
    this.#draw();
  }

  /** @param {PermissionRequest} request @param {string} optionId @param {HunkChoice[]} chosen */
  #answer(request, optionId, chosen) {
    const isAllowed = request.options.some((option) => option.optionId === optionId && option.kind.startsWith("allow"));
    const hunks = isAllowed ? chosen.flatMap((choice) => choice.answers()) : [];
    this.options.home.answer(request.permissionId, { outcome: "selected", optionId, hunks });
    const hadKeyboard = this.element.contains(document.activeElement);
    this.resolve(request.permissionId);
    if (!hadKeyboard) return;
    if (this.count > 0) this.focus();
    else this.options.answered();
  }

  /** @param {KeyboardEvent} event */
  #noteKey(event) {
    if (["Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
    const now = performance.now();
    this.#isFirstKey = now - this.#keyAt >= ALONE_MS;
    this.#keyAt = now;
    const pending = this.#pending;
    if (pending === null) return;
    clearTimeout(pending.timer);
    this.#pending = null;
    if (event.key === "Enter") {
      event.preventDefault();
      event.stopPropagation();
      pending.answer();
    } else if (event.key !== "Escape" && event.key !== "Backspace") this.options.typed(pending.key);
  }

  #draw() {
    clearTimeout(this.#pending?.timer);
    this.#pending = null;
    this.#shownAt = performance.now();
    const all = [...this.#asked.values()];
    fill(this.element, all.slice(0, 3).map((request) => this.#card(request)), all.length > 3 && h("p", { class: "dim" }, `and ${all.length - 3} more`));
    this.options.changed(all.length);
  }

  /** @param {PermissionRequest} request */
  #card(request) {
    const { folder, home, sid } = this.options;
    const { subject } = request;
    const diffs = /** @type {{ path?: string, oldText?: string | null, newText?: string, hunks?: import("./diff.js").Hunk[] }[]} */ (subject.diffs);
    const count = diffs.reduce((sum, { hunks = [] }) => sum + hunks.length, 0);
    const chosen = diffs.map(({ newText = "", hunks = [] }, diff) => new HunkChoice(diff, newText, hunks, count === 1));
    const buttons = request.options.map((option) => {
      const key = KEYS[option.kind];
      const isAllowed = option.kind.startsWith("allow");
      return h("button", { type: "button", class: `button ${option.kind === "allow_once" ? "primary" : isAllowed ? "" : "danger"}`, "aria-keyshortcuts": key === "A" ? "Shift+A" : key, onclick: () => this.#answer(request, option.optionId, chosen) }, visible(option.name), key && h("kbd", {}, key));
    });
    const keyed = (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1 || event.key === " ") return;
      if (event.target instanceof HTMLTextAreaElement) return;
      event.preventDefault();
      const option = request.options.find(({ kind }) => KEYS[kind] === event.key);
      const isWord = !this.#isFirstKey || this.options.isTyping() || performance.now() - this.#shownAt < PAUSE_MS;
      if (option === undefined || isWord) return this.options.typed(event.key);
      if (option.kind.startsWith("allow") && showMore(card)) return;
      const answer = () => this.#answer(request, option.optionId, chosen);
      this.#pending = { key: event.key, timer: setTimeout(answer, ALONE_MS), answer };
    };
    const changes = diffs.map(({ path = "", oldText, newText = "", hunks = [] }, at) => {
      const { openDiff } = home;
      return h("div", { class: "change" }, h("div", { class: "code-head" }, h("span", { class: "path" }, shortPath(path, folder())), openDiff && h("button", { type: "button", class: "copy", onclick: () => openDiff(path, oldText ?? "", newText) }, "Open diff")),
        hunks.length === 0 ? diffView(foldKept(compareLines(oldText ?? "", newText)), `Changes of ${path}`, path)
          : diffView(foldKept(linesOfHunks(oldText ?? "", newText, hunks)), `Changes of ${path}`, path, (hunk) => /** @type {HunkChoice} */ (chosen[at]).bar(hunk)));
    });
    const path = shortPath(subject.detail, folder());
    // A change shows its path, and so does the title of a question about one; all else stands in the box, whole.
    const isTold = diffs.length > 0 || (subject.type === "path" && [visible(subject.detail), path].some((text) => visible(request.title).includes(text)));
    const detail = subject.detail !== "" && !isTold && h("pre", { class: "detail", tabindex: "0" }, subject.type === "path" ? path : visible(subject.detail));
    const elsewhere = request.sid !== sid() && h("p", { class: "dim" }, "in another conversation");
    const card = h("section", { class: "card permission", role: "alertdialog", "aria-label": request.title, tabindex: "-1", onkeydown: keyed },
      h("div", { class: "asks" }, icon("warn"), "Sidecar asks for your permission"),
      h("div", { class: "card-head" }, h("strong", {}, visible(request.title))), elsewhere, detail, request.description ? h("p", { class: "dim" }, visible(request.description)) : null, changes, h("div", { class: "buttons" }, buttons));
    const update = () => {
      const isUnseen = card.querySelector(".unshown") !== null;
      request.options.forEach(({ kind }, index) => kind.startsWith("allow") && buttons[index]?.toggleAttribute("disabled", isUnseen));
    };
    card.addEventListener("click", update);
    update();
    return card;
  }

  /** Put the keyboard on the first question. */
  focus() {
    const first = this.element.querySelector(".permission");
    if (first instanceof HTMLElement) first.focus();
  }
}

/** What the user keeps of a proposed change, hunk by hunk: as it is, edited, or not at all. */
class HunkChoice {
  /** @type {Set<number>} */
  #refused = new Set();
  /** @type {Map<number, string>} */
  #edited = new Map();

  /** @param {number} diff @param {string} newText @param {import("./diff.js").Hunk[]} hunks @param {boolean} isOnly there is one part, which the answers themselves keep or refuse */
  constructor(diff, newText, hunks, isOnly) {
    this.diff = diff;
    this.newText = newText;
    this.hunks = hunks;
    this.isOnly = isOnly;
  }

  /** What differs from the proposal, as the daemon takes it. */
  answers() {
    return this.hunks.flatMap((_, hunk) => {
      if (this.#refused.has(hunk)) return [{ diff: this.diff, hunk, accepted: false }];
      const text = this.#edited.get(hunk);
      return text === undefined ? [] : [{ diff: this.diff, hunk, accepted: true, text }];
    });
  }

  /** The controls above the lines of a hunk. @param {number} hunk */
  bar(hunk) {
    const name = `${hunk + 1} of ${this.hunks.length}`;
    const box = h("input", { type: "checkbox", checked: true, onchange: () => {
      if (box.checked) this.#refused.delete(hunk);
      else this.#refused.add(hunk);
      mark("refused", !box.checked);
    } });
    const mark = (/** @type {string} */ state, /** @type {boolean} */ holds) => {
      const lines = element.closest(".diff")?.querySelectorAll(`[data-hunk="${hunk}"]`) ?? [];
      for (const line of lines) line.classList.toggle(state, holds);
    };
    const edit = button("Edit", () => {
      const { newStart, newEnd } = /** @type {import("./diff.js").Hunk} */ (this.hunks[hunk]);
      const proposed = splitLines(this.newText).slice(newStart, newEnd).map((line) => `${line}\n`).join("");
      const area = h("textarea", { class: "text hunk-text", rows: String(Math.min(12, newEnd - newStart + 1)), "aria-label": `The lines of part ${name}`, spellcheck: "false", oninput: () => this.#edited.set(hunk, area.value) });
      area.value = proposed;
      edit.remove();
      mark("edited", true);
      element.after(area);
      area.focus();
    }, "small");
    const element = h("div", { class: "hunk-bar" }, this.isOnly ? null : h("label", {}, box, ` Keep part ${name}`), edit);
    return element;
  }
}

/**
 * Show more of what has not been in view: nothing is allowed by one key that could not be read before it.
 * @param {HTMLElement} card
 * @returns {boolean} whether there was more
 */
function showMore(card) {
  const rest = card.querySelector(".unshown");
  if (rest instanceof HTMLElement) {
    rest.focus();
    return true;
  }
  const [detail, buttons] = [card.querySelector(".detail"), card.querySelector(".buttons")];
  if (detail === null || buttons === null) return false;
  const below = detail.getBoundingClientRect().bottom - buttons.getBoundingClientRect().top;
  if (below > 1) {
    card.scrollBy(0, below + 8);
    return true;
  }
  const hasMore = detail.scrollTop + detail.clientHeight < detail.scrollHeight - 1;
  if (hasMore) detail.scrollBy(0, Math.max(40, detail.clientHeight - 40));
  return hasMore;
}

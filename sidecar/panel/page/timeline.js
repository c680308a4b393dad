/** The timeline: a mark for each prompt, compaction and checkpoint, along the length of the conversation. */

import { fill, h, openDialog } from "./dom.js";

/**
 * @typedef {object} Mark
 * @property {"turn" | "compaction" | "checkpoint" | "error"} kind
 * @property {number} index the row that it belongs to
 * @property {string} label
 * @property {() => void} [act] what Enter does besides going there
 */

const MOST_MARKS = 80;
const NAMES = { turn: "Prompt", compaction: "Compaction", checkpoint: "Checkpoint of files", error: "Failure" };

const MEANINGS = { turn: "that you sent", compaction: "where older messages were folded into a summary", checkpoint: "that a turn has changed; Enter shows what changed, and takes it back", error: "of a turn" };

export class Timeline {
  /** @type {Mark[]} */
  #marks = [];

  /** @param {{ goTo: (index: number) => void, shareOf: (index: number) => number }} options */
  constructor(options) {
    this.options = options;
    this.tip = h("div", { class: "tip", role: "tooltip", hidden: true });
    this.track = h("div", { class: "timeline-track" });
    const legend = h("button", { type: "button", class: "legend-button", "aria-label": "What the marks mean", title: "What the marks mean", onclick: openLegend }, "?");
    this.element = h("nav", { class: "timeline", "aria-label": "Timeline of prompts, compactions and checkpoints", onkeydown: (/** @type {KeyboardEvent} */ event) => this.#moved(event) }, this.track, legend, this.tip);
    this.element.addEventListener("mouseleave", () => (this.tip.hidden = true));
  }

  /** @param {Mark[]} marks in the order of the rows */
  show(marks) {
    const turns = marks.filter(({ kind }) => kind === "turn").length;
    const step = Math.max(1, Math.ceil(turns / MOST_MARKS));
    let n = 0;
    this.#marks = marks.filter(({ kind }) => kind !== "turn" || n++ % step === 0);
    const buttons = this.#marks.map((mark, at) => {
      const label = `${NAMES[mark.kind]}: ${mark.label}`;
      const tell = () => this.#tell(made, label);
      const made = h("button", { type: "button", class: `mark ${mark.kind}`, "aria-label": label, tabindex: at === this.#marks.length - 1 ? "0" : "-1", onclick: () => this.#press(mark), onmouseenter: tell, onfocus: tell, onblur: () => (this.tip.hidden = true) });
      return made;
    });
    fill(this.track, buttons);
    this.place();
  }

  /** Put the marks where their rows are now. */
  place() {
    let last = -1;
    [...this.track.children].forEach((element, at) => {
      const mark = this.#marks[at];
      if (!(element instanceof HTMLElement) || mark === undefined) return;
      const share = Math.max(this.options.shareOf(mark.index), last + 0.001);
      last = share;
      element.style.top = `${Math.min(99.5, 100 * share)}%`;
    });
  }

  /** @param {Mark} mark */
  #press(mark) {
    this.options.goTo(mark.index);
    mark.act?.();
  }

  /** @param {HTMLElement} made @param {string} label */
  #tell(made, label) {
    this.tip.textContent = label;
    this.tip.hidden = false;
    this.tip.style.top = `${Math.min(made.offsetTop, Math.max(0, this.element.clientHeight - 60))}px`;
  }

  /** @param {KeyboardEvent} event */
  #moved(event) {
    const step = { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const all = [...this.track.children].filter((each) => each instanceof HTMLElement);
    const at = all.findIndex((each) => each === document.activeElement);
    all[Math.max(0, Math.min(all.length - 1, at + step))]?.focus();
  }
}

/** Say what each kind of mark stands for. */
function openLegend() {
  const rows = Object.entries(MEANINGS).map(([kind, meaning]) => h("li", {}, h("span", { class: `mark ${kind}`, "aria-hidden": "true" }), h("strong", {}, NAMES[/** @type {Mark["kind"]} */ (kind)]), ` ${meaning}`));
  openDialog("The timeline", h("ul", { class: "legend" }, rows), h("p", { class: "dim" }, "A mark leads to its place. With the keyboard: Tab, then the arrows, Home and End, and Enter."));
}

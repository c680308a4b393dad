/** The colours of source code: the daemon tells the parts of a text that is shown already, and they become spans of it. */

import { h } from "./dom.js";

/** The class of a text that waits for its colours; it has `data-language` or `data-path`. */
export const UNCOLOURED = "uncoloured";
/** A longer text stays plain. */
const MOST_CHARS = 100_000;
const KINDS = new Set(["keyword", "string", "comment", "number", "name"]);

/** @typedef {{ start: number, length: number, kind: string }} Run */

export class Colours {
  #waiting = document.getElementsByClassName(UNCOLOURED);
  #isAsking = false;

  /** @param {(text: string, named: object) => Promise<{ runs: Run[] }>} ask */
  constructor(ask) {
    this.ask = ask;
    new MutationObserver(() => void this.#colour()).observe(document.body, { childList: true, subtree: true });
  }

  /** Colour what waits, one text after the other. */
  async #colour() {
    if (this.#isAsking) return;
    this.#isAsking = true;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      next.classList.remove(UNCOLOURED);
      const { language, path } = /** @type {HTMLElement} */ (next).dataset;
      const lines = path === undefined ? [next] : [...next.querySelectorAll(":is(.added, .kept) > .diff-text")];
      const text = lines.map((line) => line.textContent).join("\n");
      if (text.length > MOST_CHARS) continue;
      const { runs } = await this.ask(text, path === undefined ? { language } : { path }).catch(() => ({ runs: [] }));
      let [from, first] = [0, 0];
      for (const line of lines) {
        const end = from + (line.textContent ?? "").length;
        while (first < runs.length && endOf(runs[first]) <= from) first++;
        layRuns(line, runs, from, first);
        from = end + 1;
      }
    }
    this.#isAsking = false;
  }
}

/** @param {Run | undefined} run */
function endOf(run) {
  return run === undefined ? 0 : run.start + run.length;
}

/**
 * Make spans of the runs within the text of `element`, which begins at `from` of the whole text.
 * @param {Element} element @param {Run[]} runs @param {number} from
 * @param {number} [first] the first run that may end behind `from`
 */
export function layRuns(element, runs, from, first = 0) {
  const text = element.textContent ?? "";
  /** @type {Node[]} */
  const parts = [];
  let at = 0;
  for (let index = first; index < runs.length; index++) {
    const { start, length, kind } = /** @type {Run} */ (runs[index]);
    if (start - from >= text.length) break;
    const [left, right] = [Math.max(start - from, at), Math.min(start + length - from, text.length)];
    if (left >= right || !KINDS.has(kind)) continue;
    parts.push(document.createTextNode(text.slice(at, left)), h("span", { class: `code-${kind}` }, text.slice(left, right)));
    at = right;
  }
  if (at === 0) return;
  element.replaceChildren();
  for (const part of [...parts, document.createTextNode(text.slice(at))]) element.append(part);
}

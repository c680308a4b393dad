/**
 * A long list of which only the rows in view exist as elements.
 *
 * Rows have any height, which is known only once they are drawn; until then it is guessed. The row at the top of the
 * view stays where it is when heights above it turn out otherwise. At the end of the list the view stays at the end.
 */

import { h } from "./dom.js";

const OVERSCAN_PX = 600;
const NEAR_END_PX = 48;

/**
 * @template {{ id: string, version: number }} Row
 */
export class VirtualList {
  /** @type {readonly Row[]} */
  #rows = [];
  /** @type {Map<string, number>} */
  #heights = new Map();
  /** The top of each row, and after the last the height of all. */
  #tops = new Float64Array(1);
  #isMeasured = false;
  /** @type {Map<string, { element: HTMLElement, version: number }>} */
  #drawn = new Map();
  #isAtEnd = true;
  #lastTop = 0;
  #frame = 0;
  /** @type {WeakMap<Element, string>} */
  #ids = new WeakMap();
  /** The row and the words of what had the keyboard when its element went; it is given back once the row is there. @type {{ id: string, words: string } | null} */
  #held = null;

  /**
   * @param {object} options
   * @param {(row: Row, old: HTMLElement | undefined) => HTMLElement} options.draw returns the row's element, new or old
   * @param {(row: Row) => number} options.guess a row's height before it is drawn, in pixels
   * @param {(first: number, last: number, total: number) => void} [options.moved]
   * @param {string} options.label
   */
  constructor({ draw, guess, moved, label }) {
    this.draw = draw;
    this.guess = guess;
    this.moved = moved;
    this.before = h("div", { class: "spacer", "aria-hidden": "true" });
    this.after = h("div", { class: "spacer", "aria-hidden": "true" });
    this.body = h("div", { class: "rows", role: "log", "aria-label": label, "aria-live": "off" });
    this.element = h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label }, this.before, this.body, this.after);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.observer = new ResizeObserver((entries) => this.#resized(entries));
    this.observer.observe(this.element);
  }

  /** @param {readonly Row[]} rows */
  show(rows) {
    this.#rows = rows;
    this.#isMeasured = false;
    this.refresh();
  }

  /** Draw what has changed with the next frame. */
  refresh() {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.drawNow());
  }

  /** Whether the view follows the end. */
  get isAtEnd() {
    return this.#isAtEnd;
  }

  goToEnd() {
    this.#isAtEnd = true;
    this.refresh();
  }

  /** Let the same rows stay in view, counted from the end, while `change` puts others before them. @param {() => void} change */
  keepFromEnd(change) {
    const left = this.element.scrollHeight - this.element.scrollTop;
    change();
    this.drawNow();
    this.element.scrollTop = this.element.scrollHeight - left;
    this.drawNow();
  }

  /** The share of the list, from 0 to 1, at which a row begins. @param {number} index */
  shareOf(index) {
    this.#measure();
    const total = this.#tops[this.#rows.length] ?? 0;
    return total === 0 ? 0 : (this.#tops[index] ?? 0) / total;
  }

  /** Scroll a row to the top of the view. @param {number} index */
  goTo(index) {
    this.#isAtEnd = false;
    this.#measure();
    this.element.scrollTop = this.#tops[index] ?? 0;
    this.drawNow();
    // Its neighbours have been measured meanwhile.
    this.element.scrollTop = this.#tops[index] ?? 0;
    this.drawNow();
  }

  /** @param {string} id @returns {HTMLElement | undefined} the element of a row that is in view */
  elementOf(id) {
    return this.#drawn.get(id)?.element;
  }

  drawNow() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#measure();
    if (this.#isAtEnd) this.#placeAtEnd();
    else this.#place(this.element.scrollTop);
  }

  #placeAtEnd() {
    const total = this.#tops[this.#rows.length] ?? 0;
    this.#place(Math.max(0, total - this.element.clientHeight));
    this.element.scrollTop = this.element.scrollHeight;
    this.#lastTop = this.element.scrollTop;
  }

  /** Draw the rows around `top`, measure them, and keep the first visible one in place. @param {number} top */
  #place(top) {
    const height = this.element.clientHeight || 800;
    const anchor = this.#indexAt(top);
    const offset = top - (this.#tops[anchor] ?? 0);
    const first = this.#indexAt(Math.max(0, top - OVERSCAN_PX));
    const last = Math.min(this.#rows.length, this.#indexAt(top + height + OVERSCAN_PX) + 1);
    this.#drawRange(first, last);
    if (this.#measureDrawn(first, last)) {
      this.#isMeasured = false;
      this.#measure();
      if (!this.#isAtEnd) {
        const wanted = (this.#tops[anchor] ?? 0) + offset;
        if (Math.abs(wanted - this.element.scrollTop) > 1) {
          this.#space(first, last);
          this.element.scrollTop = wanted;
        }
      }
    }
    this.#space(first, last);
    this.moved?.(first, last, this.#rows.length);
  }

  /** @param {number} first @param {number} last */
  #space(first, last) {
    this.before.style.height = `${this.#tops[first] ?? 0}px`;
    this.after.style.height = `${(this.#tops[this.#rows.length] ?? 0) - (this.#tops[last] ?? 0)}px`;
  }

  /** @param {number} first @param {number} last */
  #drawRange(first, last) {
    /** @type {Map<string, { element: HTMLElement, version: number }>} */
    const drawn = new Map();
    /** @type {ChildNode | null} */
    let next = this.body.firstChild;
    const wanted = new Set(this.#rows.slice(first, last).map((row) => row.id));
    for (const [id, { element }] of this.#drawn) {
      if (wanted.has(id)) continue;
      if (element === next) next = element.nextSibling;
      this.#remove(id, element);
    }
    for (let index = first; index < last; index++) {
      const row = /** @type {Row} */ (this.#rows[index]);
      const old = this.#drawn.get(row.id);
      const element = old !== undefined && old.version === row.version ? old.element : this.draw(row, old?.element);
      if (old !== undefined && old.element !== element) {
        if (old.element === next) next = old.element.nextSibling;
        this.#remove(row.id, old.element);
      }
      if (element === next) next = element.nextSibling;
      else this.body.insertBefore(element, next);
      if (old?.element !== element) {
        this.#ids.set(element, row.id);
        this.observer.observe(element);
      }
      drawn.set(row.id, { element, version: row.version });
    }
    this.#drawn = drawn;
    this.#giveBack();
  }

  /** @param {string} id @param {HTMLElement} element */
  #remove(id, element) {
    const focused = document.activeElement;
    if (focused !== null && element.contains(focused)) {
      this.#held = { id, words: wordsOf(focused) };
      this.element.focus({ preventScroll: true });
    }
    this.observer.unobserve(element);
    element.remove();
  }

  /** Put the keyboard where it was in a row that was drawn anew: on the same control, else on the first one. */
  #giveBack() {
    if (this.#held === null) return;
    const { id, words } = this.#held;
    const element = this.#drawn.get(id)?.element;
    const isFree = document.activeElement === this.element || document.activeElement === document.body;
    if (isFree && element === undefined) return;
    this.#held = null;
    if (!isFree || element === undefined) return;
    const controls = /** @type {HTMLElement[]} */ ([...element.querySelectorAll("button, a, summary")]);
    (controls.find((each) => wordsOf(each) === words) ?? controls[0])?.focus({ preventScroll: true });
  }

  /** @param {number} first @param {number} last @returns {boolean} whether a height is another one */
  #measureDrawn(first, last) {
    let isChanged = false;
    for (let index = first; index < last; index++) {
      const { id } = /** @type {Row} */ (this.#rows[index]);
      const height = this.#drawn.get(id)?.element.offsetHeight ?? 0;
      if (this.#heights.get(id) !== height) {
        this.#heights.set(id, height);
        isChanged = true;
      }
    }
    return isChanged;
  }

  #measure() {
    if (this.#isMeasured && this.#tops.length > this.#rows.length) return;
    if (this.#tops.length <= this.#rows.length) this.#tops = new Float64Array(Math.ceil((this.#rows.length + 1) * 1.5));
    let top = 0;
    this.#rows.forEach((row, index) => {
      this.#tops[index] = top;
      top += this.#heights.get(row.id) ?? this.guess(row);
    });
    this.#tops[this.#rows.length] = top;
    this.#isMeasured = true;
  }

  /** @param {number} top @returns {number} the row there */
  #indexAt(top) {
    let [low, high] = [0, Math.max(0, this.#rows.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#tops[middle] ?? 0) <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    // Only the user goes up. What grew meanwhile, such as a question below, must not be taken for that.
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.#isAtEnd = true;
    else if (scrollTop < this.#lastTop - 1) this.#isAtEnd = false;
    this.#lastTop = scrollTop;
    this.refresh();
  }

  /** @param {ResizeObserverEntry[]} entries */
  #resized(entries) {
    const isOther = entries.some(({ target }) => {
      if (target === this.element) return true;
      const id = this.#ids.get(target);
      return id !== undefined && this.#drawn.has(id) && this.#heights.get(id) !== /** @type {HTMLElement} */ (target).offsetHeight;
    });
    if (isOther) this.drawNow();
  }
}

/** @param {Element} element */
function wordsOf(element) {
  return element.getAttribute("aria-label") ?? element.textContent ?? "";
}

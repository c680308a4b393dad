/**
 * Elements, built one by one. Text only ever becomes text: nothing here, or anywhere in the panel, parses HTML.
 */

/** @typedef {Node | string | null | undefined | false} Leaf */
/** @typedef {Leaf | (Leaf | Leaf[])[]} Child nothing is added for what is null, undefined or false */

/**
 * Return an element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [props] attributes; `class`, `on...` handlers and `dataset` as they are written
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "value" || name === "checked" || name === "open") Reflect.set(element, name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  // One by one: as arguments of one call, tens of thousands of them overflow the stack.
  for (const child of solid(children)) element.append(child);
  return element;
}

/**
 * Replace the content of an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  for (const child of solid(children)) element.append(child);
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function solid(children) {
  return /** @type {(Node | string)[]} */ (children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
}

const SVG = "http://www.w3.org/2000/svg";

/** Outlines on a grid of 24; each name is what the picture shows. */
const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6L6 18",
  right: "M9 6l6 6-6 6",
  down: "M6 9l6 6 6-6",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12l5 5 9-11",
  cross: "M7 7l10 10M17 7L7 17",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  terminal: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h4",
  globe: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  bulb: "M9 18h6M10 21h4M12 3a6 6 0 0 0-4 10c1 1 1 2 1 3h6c0-1 0-2 1-3a6 6 0 0 0-4-10z",
  tool: "M14 6a4 4 0 0 0-5 5l-6 6 3 3 6-6a4 4 0 0 0 5-5l-3 2-2-2z",
  fold: "M4 4h16M4 20h16M12 6v4M9 8l3 3 3-3M12 18v-4M9 16l3-3 3 3",
  back: "M9 14L4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  warn: "M12 4l9 16H3zM12 10v4M12 17h.01",
  fork: "M6 4v16M6 12c8 0 12-2 12-8M15 6l3-3 3 3",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  enter: "M20 5v6a3 3 0 0 1-3 3H5M9 10l-4 4 4 4",
  flag: "M5 21V4h12l-2 4 2 4H5",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
};

/** @typedef {keyof typeof PATHS} IconName */

/**
 * Return a picture that says nothing to a screen reader; its button has the label.
 * @param {IconName} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/**
 * Return a button with a picture, whose label is read aloud and shown on hover.
 * @param {IconName} name
 * @param {string} label
 * @param {(event: MouseEvent) => void} press
 * @param {string} [more] further classes
 */
export function iconButton(name, label, press, more = "") {
  return h("button", { type: "button", class: `icon-button ${more}`, "aria-label": label, title: label, onclick: press }, icon(name));
}

/**
 * Return a button with words.
 * @param {string} label
 * @param {(event: MouseEvent) => void} press
 * @param {string} [more] further classes
 */
export function button(label, press, more = "") {
  return h("button", { type: "button", class: `button ${more}`, onclick: press }, label);
}

/**
 * Return a dialog that is open; it goes when it is closed, with Escape too.
 * @param {string} title
 * @param {...Child} children
 */
export function openDialog(title, ...children) {
  const close = iconButton("close", "Close", () => dialog.close());
  const head = h("header", { class: "dialog-head" }, h("h2", {}, title), close);
  const dialog = h("dialog", { class: "dialog", "aria-label": title }, head, h("div", { class: "dialog-body" }, ...children));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Ask for one line of text; null when it is left.
 * @param {string} title
 * @param {{ value?: string, label: string, go: string }} options
 * @returns {Promise<string | null>}
 */
export function askText(title, { value = "", label, go }) {
  return new Promise((resolve) => {
    const input = h("input", { class: "text", value, "aria-label": label, placeholder: label });
    const form = h("form", { class: "ask", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), done(input.value.trim())) }, input, h("button", { class: "button primary" }, go));
    const dialog = openDialog(title, form);
    input.select();
    dialog.addEventListener("close", () => resolve(null));
    const done = (/** @type {string} */ text) => (resolve(text || null), dialog.close());
  });
}

/** @param {number} count @returns {string} */
export function tokens(count) {
  if (count < 1000) return String(count);
  if (count < 100_000) return `${(count / 1000).toFixed(1)}k`;
  return count < 1_000_000 ? `${Math.round(count / 1000)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

/** @param {number} at epoch milliseconds @param {number} [now] */
export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, (now - at) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return seconds < 7 * 86_400 ? `${Math.round(seconds / 86_400)} d ago` : new Date(at).toLocaleDateString();
}

/** @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

/** @param {string} uri @param {string} folder @returns {string} the path, short where it is below the folder, with hidden characters shown */
export function shortPath(uri, folder) {
  let path = uri;
  if (uri.startsWith("file://")) {
    try {
      path = decodeURIComponent(uri.slice("file://".length));
    } catch {
      path = uri.slice("file://".length);
    }
    if (/^\/[A-Za-z]:/.test(path)) path = path.slice(1);
  }
  const root = folder.replace(/[\\/]$/, "");
  return visible(path.startsWith(root) && /[\\/]/.test(path.charAt(root.length)) ? path.slice(root.length + 1) : path);
}

/** No picture of its own, by the categories of Unicode: controls, formats, private, unassigned, separators; what programs leave out; an empty pattern. */
const HIDDEN = /(?![ \n\t])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;
/** What moves other characters, or is a control: nothing that any language is written with. */
const MOVING = /(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu;
/** More blanks than two lines of a narrow card, or more than three empty lines. */
const BLANKS = /[ \t]{81,}|\n(?:[ \t]*\n){4,}/g;

const number = (/** @type {string} */ char) => `‹U+${/** @type {number} */ (char.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}›`;

/**
 * Return a text by which somebody decides: what cannot be seen in it, or moves the rest, is shown by its number, and
 * blanks that would push the rest out of sight are counted.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(HIDDEN, number).replace(BLANKS, (blanks) => {
    return blanks[0] === "\n" ? `\n‹${(blanks.split("\n").length - 2).toLocaleString()} empty lines›\n` : `‹${blanks.length.toLocaleString()} blanks›`;
  });
}

/**
 * Return prose, in which joiners and other signs of writing stay as they are, and only what moves the rest is shown.
 * @param {string} text
 */
export function readable(text) {
  return text.replace(MOVING, (char) => (char === "\r" ? "" : number(char)));
}

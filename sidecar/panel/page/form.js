/** Questions of the agent and of its tool servers: forms above the input, until they are answered, here or elsewhere. */

import { fill, h, icon, visible } from "./dom.js";

/** @typedef {import("../../../clients/typescript/src/protocol").Elicitation} Elicitation */
/** @typedef {{ value: string, label: string }} Choice */
/** @typedef {{ element: HTMLElement, read: () => unknown }} Control */

export class Forms {
  /** @type {Map<string, { form: Elicitation, card: HTMLElement }>} */
  #open = new Map();

  /** @param {{ home: import("./home.js").Home, sid: () => string, changed: () => void, answered: () => void }} options */
  constructor(options) {
    this.options = options;
    this.element = h("div", { class: "permissions", role: "region", "aria-label": "Questions", "aria-live": "polite" });
  }

  get count() {
    return this.#open.size;
  }

  /** @param {Elicitation} form */
  ask(form) {
    this.#open.set(form.elicitationId, { form, card: this.#card(form) });
    this.#draw();
  }

  /** @param {string} elicitationId */
  resolve(elicitationId) {
    if (this.#open.delete(elicitationId)) this.#draw();
  }

  clear() {
    this.#open.clear();
    this.#draw();
  }

  /** Put the keyboard on the first question. */
  focus() {
    const first = this.element.querySelector("input, select, button");
    if (first instanceof HTMLElement) first.focus();
  }

  /** @param {Elicitation} form @param {"accept" | "decline"} action @param {Record<string, unknown>} [content] */
  #answer(form, action, content) {
    this.options.home.answer(form.elicitationId, content === undefined ? { action } : { action, content });
    this.resolve(form.elicitationId);
    this.options.answered();
  }

  #draw() {
    fill(this.element, [...this.#open.values()].map(({ card }) => card));
    this.options.changed();
  }

  /** @param {Elicitation} form */
  #card(form) {
    const schema = /** @type {{ properties?: Record<string, any>, required?: string[] }} */ (form.schema);
    const fields = Object.entries(schema.properties ?? {});
    /** @type {[string, Control][]} */
    const controls = fields.map(([name, field]) => [name, control(field, schema.required?.includes(name) ?? false)]);
    const send = (/** @type {Event} */ event) => {
      event.preventDefault();
      const read = controls.map(([name, { read }]) => /** @type {[string, unknown]} */ ([name, read()]));
      this.#answer(form, "accept", Object.fromEntries(read.filter(([, value]) => value !== undefined)));
    };
    const asks = form.from === "agent" ? "Sidecar asks you" : `The tool server ${visible(form.from)} asks you`;
    const rows = fields.map(([name, field], at) => {
      const title = String(field.title ?? name);
      const isTold = fields.length === 1 && title === form.message;
      return h("div", { class: "field" }, !isTold && h("label", { for: inputId(form, name) }, visible(title)), field.description && h("p", { class: "dim" }, visible(String(field.description))), controls[at]?.[1].element);
    });
    for (const [name, { element }] of controls) {
      element.id = inputId(form, name);
      if (!element.hasAttribute("aria-label")) element.setAttribute("aria-label", visible(String(schema.properties?.[name]?.title ?? name)));
    }
    const elsewhere = form.sid !== this.options.sid() && h("p", { class: "dim" }, "in another conversation");
    return h("form", { class: "card permission form", role: "group", "aria-label": form.message, onsubmit: send },
      h("div", { class: "asks" }, icon("warn"), asks),
      h("div", { class: "card-head" }, h("strong", {}, visible(form.message))), elsewhere,
      form.url !== undefined && h("p", {}, "Open this address, if you trust it: ", h("code", {}, visible(form.url))), rows,
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "button primary" }, form.url === undefined ? "Answer" : "Done"), h("button", { type: "button", class: "button", onclick: () => this.#answer(form, "decline") }, "No answer")));
  }
}

/** @param {Elicitation} form @param {string} name */
function inputId(form, name) {
  return `form-${form.elicitationId}-${name}`;
}

/**
 * Return the control of a field, which is undefined while it has no answer.
 * @param {any} field @param {boolean} isRequired @returns {Control}
 */
function control(field, isRequired) {
  const choices = choicesOf(field.type === "array" ? field.items ?? {} : field);
  if (field.type === "boolean") {
    const box = h("input", { type: "checkbox", checked: field.default === true });
    return { element: box, read: () => box.checked };
  }
  if (choices.length > 0) {
    const type = field.type === "array" ? "checkbox" : "radio";
    const chosen = new Set([field.default ?? []].flat());
    const group = crypto.randomUUID();
    const boxes = choices.map(({ value }) => h("input", { type, name: group, value, checked: chosen.has(value), required: type === "radio" && isRequired }));
    const element = h("div", { class: "options", role: type === "radio" ? "radiogroup" : "group" }, choices.map(({ label }, at) => h("label", { class: "option" }, /** @type {HTMLInputElement} */ (boxes[at]), " ", visible(label))));
    const values = () => boxes.filter(({ checked }) => checked).map(({ value }) => value);
    return { element, read: () => (type === "radio" ? values()[0] : values()) };
  }
  const isNumber = field.type === "number" || field.type === "integer";
  const type = isNumber ? "number" : field.format === "email" ? "email" : field.format === "date" ? "date" : "text";
  const input = h("input", {
    type, class: "input", required: isRequired, value: field.default === undefined ? "" : String(field.default), autocomplete: "off",
    min: field.minimum, max: field.maximum, minlength: field.minLength, maxlength: field.maxLength, step: isNumber ? (field.type === "integer" ? 1 : "any") : undefined,
  });
  return { element: input, read: () => (input.value === "" ? undefined : isNumber ? Number(input.value) : input.value) };
}

/** @param {any} field @returns {Choice[]} */
function choicesOf(field) {
  const titled = field.oneOf ?? field.anyOf;
  if (Array.isArray(titled)) return titled.map((each) => ({ value: String(each.const), label: String(each.title ?? each.const) }));
  return Array.isArray(field.enum) ? field.enum.map((/** @type {unknown} */ each) => ({ value: String(each), label: String(each) })) : [];
}

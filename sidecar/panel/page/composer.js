/** The box to write in: many lines, completion of commands and paths, pictures, what waits, and the choices below it. */

import { fill, h, icon, iconButton, openDialog, readable, visible } from "./dom.js";

/** @typedef {import("./home.js").Chip} Chip */
/** @typedef {import("./transcript.js").ConfigOption} ConfigOption */
/** @typedef {import("./transcript.js").QueueItem} QueueItem */

/**
 * @typedef {object} Offer one completion: `text` stands for the characters from `from` to the cursor
 * @property {string} text
 * @property {string} label
 * @property {string} [detail]
 * @property {number} from
 */

/**
 * @typedef {object} ComposerActions
 * @property {(text: string, images: Image[], how: "send" | "steer") => void} send
 * @property {() => void} stop
 * @property {() => void} typed
 * @property {(text: string, offset: number) => Promise<Offer[]>} complete
 * @property {(item: QueueItem) => void} removeQueued
 * @property {(item: QueueItem) => void} editQueued
 * @property {(item: QueueItem) => void} steerQueued
 * @property {(id: string, value: string) => void} choose
 * @property {((id: string) => void) | undefined} dropChip
 */

/** @typedef {{ mimeType: string, data: string }} Image */

const MOST_IMAGE_BYTES = 5_000_000;
const OPTION_ORDER = ["model", "engine", "permissions", "thinking"];

export class Composer {
  /** @type {Offer[]} */
  #offers = [];
  #chosen = 0;
  #asked = 0;
  /** The question that the offers answer; they may still stand while a newer one is under way. */
  #answered = 0;
  #isBusy = false;
  /** @type {Image[]} */
  #images = [];
  /** @type {string[]} */
  #history = [];
  #past = -1;
  #options = "";
  #budget = "";
  /** @type {ConfigOption[]} */
  #shown = [];

  /** @param {ComposerActions} actions */
  constructor(actions) {
    this.actions = actions;
    this.list = h("div", { class: "offers", role: "listbox", id: "offers", "aria-label": "Completions", hidden: true });
    this.input = h("textarea", { class: "input-text", rows: "1", "aria-label": "Prompt", placeholder: "Ask, or type / for commands and @ for files", "aria-autocomplete": "list", "aria-controls": "offers", oninput: () => this.#changed(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#pressed(event), onpaste: (/** @type {ClipboardEvent} */ event) => this.#pasted(event), onblur: () => setTimeout(() => this.#close(), 150), onclick: () => this.#close() });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "What goes with the prompt" });
    this.pictures = h("div", { class: "chips" });
    this.queue = h("ol", { class: "queue", "aria-label": "Prompts that wait" });
    this.selects = h("span", { class: "selects" });
    this.budgets = h("datalist", { id: "budgets" });
    this.budget = h("input", { class: "choice budget", "aria-label": "Budget", placeholder: "Budget", list: "budgets", hidden: true, title: "The most that a prompt, a session or a day may cost: 0.50usd, 200k per session, 5usd per day, none", onchange: () => this.#chooseBudget() });
    this.choices = h("div", { class: "choices" }, this.selects, this.budget, this.budgets);
    // Where there is no room for the choices side by side: what is chosen, and all of them on a sheet.
    this.chosen = h("button", { type: "button", class: "chosen-line", hidden: true, onclick: () => this.#openSheet() });
    this.stopButton = iconButton("stop", "Stop (Escape)", () => actions.stop(), "stop");
    this.sendButton = iconButton("send", "Send (Enter)", () => this.submit("send"), "send");
    this.hint = h("span", { class: "hint" });
    const foot = h("div", { class: "composer-foot" }, this.choices, this.chosen, this.hint, this.stopButton, this.sendButton);
    this.element = h("div", { class: "composer" }, this.queue, h("div", { class: "box" }, this.list, this.chips, this.pictures, this.input, foot));
    this.setBusy(false);
  }

  get text() {
    return this.input.value;
  }

  /** @param {string} text */
  setText(text) {
    this.input.value = text;
    this.#grow();
    this.input.focus();
    this.input.setSelectionRange(text.length, text.length);
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.stopButton.hidden = !isBusy;
    this.hint.textContent = isBusy && this.text !== "" ? "Enter queues, Ctrl+Enter steers" : "";
    this.sendButton.title = isBusy ? "Queue (Enter), or send into the running turn (Ctrl+Enter)" : "Send (Enter)";
    this.sendButton.setAttribute("aria-label", isBusy ? "Queue" : "Send");
    this.sendButton.disabled = this.text.trim() === "" && this.#images.length === 0;
  }

  /** @param {Chip[]} chips */
  setChips(chips) {
    const { dropChip } = this.actions;
    fill(this.chips, chips.map((chip) => h("span", { class: "chip", title: chip.detail ?? chip.label }, icon("file"), visible(chip.label), dropChip && iconButton("close", `Leave out ${chip.label}`, () => dropChip(chip.id), "tiny"))));
  }

  /** @param {QueueItem[]} items @param {number} total */
  setQueue(items, total) {
    const { removeQueued, editQueued, steerQueued } = this.actions;
    fill(this.queue, items.map((item) => {
      const text = item.input.map((block) => String(block.text ?? block.type)).join(" ");
      return h("li", { class: "queued" }, h("span", { class: "queued-text" }, readable(text)), iconButton("enter", "Send it into the running turn", () => steerQueued(item), "tiny"), iconButton("pencil", "Take it back into the box", () => editQueued(item), "tiny"), iconButton("close", "Remove it", () => removeQueued(item), "tiny"));
    }), total > items.length && h("li", { class: "dim" }, `and ${total - items.length} more`));
  }

  /** @param {ConfigOption[]} options */
  setOptions(options) {
    const key = JSON.stringify(options);
    if (key === this.#options) return;
    this.#options = key;
    const shown = OPTION_ORDER.flatMap((id) => options.filter((option) => option.id === id && (option.options.length > 1 || id === "model")));
    const names = shown.filter(({ id }) => id === "model" || id === "permissions").map((option) => option.options.find(({ value }) => value === option.currentValue)?.name ?? option.currentValue);
    this.#shown = shown;
    this.chosen.hidden = shown.length === 0;
    fill(this.chosen, h("span", { class: "chosen-text" }, names.join(" · ")), icon("down"));
    this.chosen.setAttribute("aria-label", `${names.join(", ")}: change the settings of this conversation`);
    this.#setBudget(options.find((option) => option.id === "budget"));
    fill(this.selects, this.#selects());
  }

  #selects() {
    return this.#shown.map((option) => {
      const select = h("select", { class: `choice ${option.id}`, "aria-label": option.name, title: `${option.name}: ${option.currentValue}`, onchange: () => this.actions.choose(option.id, select.value) },
        option.options.map((each) => h("option", { value: each.value }, each.name)));
      if (!option.options.some((each) => each.value === option.currentValue)) select.prepend(h("option", { value: option.currentValue }, option.currentValue));
      select.value = option.currentValue;
      return select;
    });
  }

  #openSheet() {
    const rows = this.#selects().map((select) => h("label", { class: "sheet-row" }, h("span", {}, select.getAttribute("aria-label")), select));
    const budget = h("label", { class: "sheet-row", hidden: this.budget.hidden }, h("span", {}, "Budget"), this.budget);
    const sheet = openDialog("This conversation", h("div", { class: "sheet" }, rows, budget));
    sheet.classList.add("bottom");
    sheet.addEventListener("close", () => this.choices.append(this.budget));
  }

  /** Any amount may be written; the field shows the budgets that hold. @param {ConfigOption | undefined} option */
  #setBudget(option) {
    this.budget.hidden = option === undefined;
    if (option === undefined) return;
    this.#budget = option.currentValue === "default" ? "" : option.currentValue;
    if (document.activeElement !== this.budget) this.budget.value = this.#budget;
    fill(this.budgets, option.options.map((each) => h("option", { value: each.value }, each.name)));
  }

  #chooseBudget() {
    const chosen = this.budget.value.trim() || "default";
    this.budget.blur();
    this.budget.value = this.#budget;
    this.actions.choose("budget", chosen);
  }

  /** @param {"send" | "steer"} how */
  submit(how) {
    const text = this.text;
    if (text.trim() === "" && this.#images.length === 0) return;
    if (text.trim() !== "") this.#history.push(text);
    this.#past = -1;
    const images = this.#images;
    this.#images = [];
    this.input.value = "";
    this.#drawPictures();
    this.#close();
    this.#grow();
    this.actions.send(text, images, how);
  }

  #grow() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, 320)}px`;
    this.setBusy(this.#isBusy);
  }

  #changed() {
    this.#grow();
    this.actions.typed();
    void this.#complete();
  }

  async #complete() {
    const number = ++this.#asked;
    const offset = this.input.selectionStart;
    const before = this.text.slice(0, offset);
    if (!/(^\/[^\n]*$)|((?:^|\s)@\S*$)/.test(before)) return this.#close();
    const offers = await this.actions.complete(this.text, offset).catch(() => []);
    if (number !== this.#asked || document.activeElement !== this.input) return;
    this.#offers = offers;
    this.#answered = number;
    this.#chosen = 0;
    this.#drawOffers();
  }

  #drawOffers() {
    const isOpen = this.#offers.length > 0;
    this.list.hidden = !isOpen;
    fill(this.list, this.#offers.map((offer, index) => h("div", { class: "offer", role: "option", id: `offer-${index}`, "aria-selected": String(index === this.#chosen), onmousedown: (/** @type {Event} */ event) => (event.preventDefault(), this.#accept(index)) },
      h("span", { class: "offer-label" }, visible(offer.label)), h("span", { class: "offer-detail" }, visible(offer.detail ?? "")))));
    if (isOpen) {
      this.input.setAttribute("aria-activedescendant", `offer-${this.#chosen}`);
      this.list.children[this.#chosen]?.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  #close() {
    this.#asked++;
    this.#offers = [];
    this.#drawOffers();
  }

  /** @param {number} index */
  #accept(index) {
    const offer = this.#offers[index];
    if (offer === undefined) return;
    const offset = this.input.selectionStart;
    this.input.setRangeText(offer.text, offer.from, offset, "end");
    this.#close();
    this.#grow();
    if (offer.text.endsWith("/") || offer.text.endsWith(" ")) void this.#complete();
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.isComposing) return;
    if (this.#offers.length > 0 && this.#pressedInOffers(event)) return void event.preventDefault();
    const isMenu = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      if (!isMenu && this.text.endsWith("\\")) {
        this.input.setRangeText("\n", this.text.length - 1, this.text.length, "end");
        this.#grow();
      } else this.submit(isMenu ? "steer" : "send");
    } else if (event.key === "Escape" && this.#isBusy) {
      event.preventDefault();
      this.actions.stop();
    } else if (event.key === "ArrowUp" && (this.text === "" || this.#past >= 0) && this.#history.length > 0) {
      event.preventDefault();
      this.#past = Math.min(this.#history.length - 1, this.#past + 1);
      this.setText(this.#history[this.#history.length - 1 - this.#past] ?? "");
    } else if (event.key === "ArrowDown" && this.#past >= 0) {
      event.preventDefault();
      this.#past--;
      this.setText(this.#past < 0 ? "" : (this.#history[this.#history.length - 1 - this.#past] ?? ""));
    }
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether the key was for the completions */
  #pressedInOffers(event) {
    const count = this.#offers.length;
    switch (event.key) {
      case "ArrowDown":
      case "ArrowUp":
        this.#chosen = (this.#chosen + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
        this.#drawOffers();
        return true;
      case "Enter":
      case "Tab": {
        const offer = this.#offers[this.#chosen];
        const typed = this.text.slice(offer?.from, this.input.selectionStart).trimEnd();
        // Offers for an earlier text count where they begin with the present one: nothing typed is replaced by them.
        const isStale = this.#answered !== this.#asked && !offer?.text.startsWith(typed);
        // A command that is typed whole is sent, not completed to itself.
        if (event.key === "Enter" && (event.shiftKey || isStale || offer?.text.trimEnd() === typed)) return false;
        if (!isStale) this.#accept(this.#chosen);
        return true;
      }
      case "Escape":
        this.#close();
        return true;
      default:
        return false;
    }
  }

  /** @param {ClipboardEvent} event */
  #pasted(event) {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => /^image\/(png|jpeg|gif|webp)$/.test(file.type));
    if (files.length === 0) return;
    event.preventDefault();
    for (const file of files) {
      if (file.size > MOST_IMAGE_BYTES) continue;
      const reader = new FileReader();
      reader.onload = () => {
        this.#images.push({ mimeType: file.type, data: String(reader.result).replace(/^[^,]*,/, "") });
        this.#drawPictures();
      };
      reader.readAsDataURL(file);
    }
  }

  #drawPictures() {
    fill(this.pictures, this.#images.map((image, index) => h("span", { class: "chip" }, icon("image"), image.mimeType.slice("image/".length), iconButton("close", "Leave out the picture", () => (this.#images.splice(index, 1), this.#drawPictures()), "tiny"))));
    this.setBusy(this.#isBusy);
  }
}

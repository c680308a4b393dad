/** Completions of `/` and `@`: the daemon's own where it offers them, else the commands and choices that are known here. */

/** @typedef {import("./composer.js").Offer} Offer */

export class CompletionSource {
  /**
   * @param {() => { home: import("./home.js").Home, methods: Set<string>, transcript: import("./transcript.js").Transcript, sid: string }} look
   */
  constructor(look) {
    this.look = look;
  }

  /** @param {string} text @param {number} offset @returns {Promise<Offer[]>} */
  async complete(text, offset) {
    const { home, methods, sid } = this.look();
    if (!methods.has("sidecar/complete") || sid === "") return this.#known(text.slice(0, offset));
    const { items } = await home.ask("sidecar/complete", { sid, text, offset });
    return items.map((/** @type {any} */ item) => ({ text: item.text, label: item.label ?? item.text, detail: item.detail, from: item.start ?? offset }));
  }

  /** @param {string} before @returns {Offer[]} */
  #known(before) {
    const { transcript } = this.look();
    const argument = /^\/([\w-]+) (\S*)$/.exec(before);
    if (argument !== null) {
      const [, name = "", typed = ""] = argument;
      const option = transcript.options.find(({ id }) => id === name);
      return (option?.options ?? []).filter(({ value }) => value.includes(typed)).map(({ value, name: label, description }) => ({ text: value, label: value, detail: description ?? label, from: name.length + 2 }));
    }
    const command = /^\/([\w-]*)$/.exec(before);
    if (command === null) return [];
    return transcript.commands.filter(({ name }) => name.startsWith(command[1] ?? "")).map(({ name, description, hint }) => ({ text: `/${name} `, label: `/${name}${hint ? ` ${hint}` : ""}`, detail: description, from: 0 }));
  }
}

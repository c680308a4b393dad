/** Completions of `/` and `@`, which the daemon knows; and the files that a prompt then names. */

/** @typedef {import("./composer.js").Offer} Offer */

export class CompletionSource {
  /** Files that were completed. @type {Set<string>} */
  #files = new Set();

  /** @param {() => { home: import("./home.js").Home, sid: string, folder: string }} look */
  constructor(look) {
    this.look = look;
  }

  /** @param {string} text @param {number} offset @returns {Promise<Offer[]>} */
  async complete(text, offset) {
    const { home, sid, folder } = this.look();
    const { items } = await home.request("sidecar/complete", { text, position: offset, ...(sid === "" ? { cwd: folder } : { sid }) });
    for (const { kind, insertText } of items) if (kind === "file") this.#files.add(insertText.trim().replace(/^@/, "").replace(/^"(.*)"$/, "$1"));
    return items.map(({ insertText, label, detail, start }) => ({ text: insertText, label, detail: detail ?? "", from: start }));
  }

  /** The completed files that `text` names, as content blocks. @param {string} text @returns {Record<string, unknown>[]} */
  links(text) {
    const { folder } = this.look();
    const root = folder.replaceAll("\\", "/").replace(/\/$/, "");
    return [...this.#files].filter((name) => text.includes(`@${name}`) || text.includes(`@"${name}"`)).map((name) => ({
      type: "resource_link",
      name,
      uri: `file://${root.startsWith("/") ? "" : "/"}${`${root}/${name}`.split("/").map((part) => encodeURIComponent(part).replaceAll("%3A", ":")).join("/")}`,
    }));
  }
}

/** The list of stored conversations, and of those of other agents. */

import { ago, askText, button, fill, h, icon, iconButton, openDialog, plural, readable, shortPath, tokens, visible } from "./dom.js";

/** @typedef {import("../../../clients/typescript/src/protocol").SessionSummary} SessionSummary */

/**
 * @typedef {object} SessionActions
 * @property {import("./home.js").Home} home
 * @property {() => string} folder
 * @property {() => string} sid
 * @property {(sid: string) => void} open
 * @property {() => void} begin
 * @property {(error: unknown) => void} fail
 * @property {(sid: string) => void} deleted
 */

export class Sessions {
  #isHere = true;
  #number = 0;
  /** @type {"sessions" | "import"} */
  #tab = "sessions";

  /** @param {SessionActions} actions */
  constructor(actions) {
    this.actions = actions;
    this.search = h("input", { class: "text", type: "search", placeholder: "Search", "aria-label": "Search the conversations", oninput: () => void this.refresh() });
    this.list = h("div", { class: "session-list" });
    this.scope = button("This folder", () => ((this.#isHere = !this.#isHere), void this.refresh()), "small");
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "Which list" });
    this.element = h("aside", { class: "drawer", "aria-label": "Conversations", hidden: true, onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && this.toggle(false) },
      h("div", { class: "drawer-head" }, h("h2", {}, "Conversations"), iconButton("plus", "New conversation", () => (this.toggle(false), actions.begin())), iconButton("close", "Close the list", () => this.toggle(false))),
      this.tabs, h("div", { class: "drawer-tools" }, this.search, this.scope), this.list);
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** @param {boolean} isOpen */
  toggle(isOpen = !this.isOpen) {
    this.element.hidden = !isOpen;
    if (!isOpen) return;
    void this.refresh();
    this.search.focus();
  }

  async refresh() {
    if (!this.isOpen) return;
    const number = ++this.#number;
    fill(this.tabs, /** @type {const} */ ([["sessions", "Stored here"], ["import", "Of other agents"]]).map(([tab, label]) => {
      const made = button(label, () => ((this.#tab = tab), void this.refresh()), this.#tab === tab ? "chosen" : "");
      made.setAttribute("aria-pressed", String(this.#tab === tab));
      return made;
    }));
    this.scope.textContent = this.#isHere ? "This folder" : "All folders";
    this.scope.hidden = this.#tab === "import";
    try {
      const rows = this.#tab === "import" ? await this.#importable() : await this.#stored();
      if (number !== this.#number) return;
      fill(this.list, rows.length === 0 ? h("p", { class: "dim empty" }, "Nothing is found.") : rows);
    } catch (error) {
      this.actions.fail(error);
    }
  }

  async #stored() {
    const found = await listSessions(this.actions.home, this.#isHere ? this.actions.folder() : undefined, this.search.value.trim());
    return found.map((session) => this.#row(session));
  }

  /** @param {SessionSummary} session */
  #row(session) {
    const { home, open, sid, fail, deleted } = this.actions;
    const name = session.title || "(untitled)";
    const isOpen = session.sid === sid();
    const run = (/** @type {() => Promise<unknown>} */ work) => () => void work().then(() => this.refresh(), fail);
    const rename = async () => {
      const title = await askText("Rename the conversation", { value: session.title, label: "Title", go: "Rename" });
      if (title !== null) await home.request("sidecar/session/rename", { sid: session.sid, title });
    };
    const fork = async () => {
      const made = await home.request("sidecar/session/fork", { sid: session.sid });
      this.toggle(false);
      open(made.sid);
    };
    const remove = async () => {
      if (!(await confirmed(`Delete “${name}” for good?`, "Delete"))) return;
      await home.request("sidecar/session/delete", { sid: session.sid, force: true });
      deleted(session.sid);
    };
    const meta = [ago(session.updatedAt), plural(session.messages, "message"), `${tokens(session.tokens)} tokens`, this.#isHere ? "" : shortPath(session.cwd, "")].filter(Boolean).join(" · ");
    return h("div", { class: `session ${isOpen ? "chosen" : ""}` },
      h("button", { type: "button", class: "session-open", "aria-current": isOpen ? "true" : undefined, onclick: () => (this.toggle(false), open(session.sid)) },
        h("span", { class: "session-title" }, readable(name), workBadge(session)), h("span", { class: "dim" }, meta)),
      h("div", { class: "session-actions" }, iconButton("pencil", `Rename ${name}`, run(rename), "tiny"), iconButton("fork", `Fork ${name}`, run(fork), "tiny"), iconButton("trash", `Delete ${name}`, run(remove), "tiny")));
  }

  async #importable() {
    const { home, folder, open, fail } = this.actions;
    const { sessions = [] } = await home.request("sidecar/session/import", { listOnly: true, cwd: folder(), limit: 200 });
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const bring = async (/** @type {{ path: string, id: string, source: string }} */ one) => {
      const made = await home.request("sidecar/session/import", { path: one.path, id: one.id, source: one.source });
      this.toggle(false);
      const { sid, report: read } = made;
      if (sid === undefined || read === undefined) return;
      open(sid);
      const notes = read.notes.map((note) => h("li", {}, readable(note.message), note.count > 1 ? ` (${note.count})` : ""));
      const report = `${plural(Object.values(read.entries).reduce((sum, count) => sum + count, 0), "entry", "entries")}, ${plural(read.compactions, "compaction")}, ${tokens(read.tokens)} tokens, from ${read.source}`;
      openDialog("Imported", h("p", {}, report), notes.length === 0 ? h("p", { class: "dim" }, "Nothing had to be repaired or left out.") : h("ul", {}, notes));
    };
    return sessions.filter((one) => words.every((word) => `${one.title} ${one.source} ${one.cwd}`.toLowerCase().includes(word))).map((one) =>
      h("div", { class: "session" }, h("button", { type: "button", class: "session-open", onclick: () => void bring(one).catch(fail) },
        h("span", { class: "session-title" }, readable(one.title || one.id)), h("span", { class: "dim" }, [one.source, ago(one.updatedAt), visible(one.cwd)].join(" · ")))));
  }
}

const WORK = /** @type {Record<string, string>} */ ({ working: "at work", waiting: "waiting for you", failed: "failed" });

/** Whether a conversation works, has failed or waits for its user, and with what question. @param {SessionSummary} session */
function workBadge({ state, text = "" }) {
  const label = WORK[state ?? ""];
  return label === undefined ? null : h("span", { class: `badge ${state === "working" ? "" : "warn"}`, title: visible(text) }, label);
}

/** How many nodes a listed conversation has, by its id. @type {Map<string, number>} */
export const LENGTHS = new Map();

/** @param {import("./home.js").Home} home @param {string | undefined} cwd @param {string} query @returns {Promise<SessionSummary[]>} */
export async function listSessions(home, cwd, query = "") {
  const found = [];
  let cursor;
  do {
    /** @type {import("../../../clients/typescript/src/protocol").SessionListResult} */
    const page = await home.request("sidecar/session/list", { ...(cwd === undefined ? {} : { cwd }), ...(query === "" ? {} : { query }), ...(cursor === undefined ? {} : { cursor }), limit: 200 });
    for (const each of page.sessions) found.push(each);
    for (const { sid, messages } of page.sessions) LENGTHS.set(sid, messages);
    cursor = page.nextCursor;
  } while (cursor !== undefined && found.length < 1000);
  return found;
}

/** @param {string} question @param {string} go @returns {Promise<boolean>} */
export function confirmed(question, go) {
  return new Promise((resolve) => {
    const dialog = openDialog(question, h("div", { class: "buttons" }, button(go, () => (resolve(true), dialog.close()), "danger"), button("Cancel", () => dialog.close())));
    dialog.addEventListener("close", () => resolve(false));
  });
}

/** What is shown before there is a conversation; without a folder, before the daemon has answered. @param {SessionSummary[]} recent @param {string} folder @param {(sid: string) => void} open */
export function startScreen(recent, folder, open) {
  const rows = recent.slice(0, 6).map((session) => h("button", { type: "button", class: "recent", onclick: () => open(session.sid) },
    h("span", { class: "session-title" }, readable(session.title || "(untitled)")), h("span", { class: "dim" }, `${ago(session.updatedAt)} · ${plural(session.messages, "message")}`)));
  const where = folder === "" ? [h("span", { class: "spinner" }), "Starting; you can write already"] : [icon("file"), visible(folder)];
  return h("div", { class: "start" }, h("h1", {}, "What shall we work on?"), h("p", { class: "dim path", role: "status" }, where), rows.length > 0 && [h("h2", {}, "Go on with"), h("div", { class: "recents" }, rows)],
    h("p", { class: "tips dim" }, h("kbd", {}, "/"), " commands  ", h("kbd", {}, "@"), " files  ", h("kbd", {}, "Shift+Enter"), " a new line  ", h("kbd", {}, "Esc"), " stops"));
}

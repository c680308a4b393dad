/**
 * The panel: one conversation with all that belongs to it, in whatever home it lives.
 *
 * It holds which conversation is shown, and hands what happens to the parts that draw. What the daemon says is the
 * state; after a lost connection the conversation is loaded again and nothing is guessed.
 */

import { CompletionSource } from "./completion.js";
import { Composer } from "./composer.js";
import { compactionCard, openPreview } from "./compaction.js";
import { Colours } from "./colours.js";
import { diffView, readUnified } from "./diff.js";
import { askText, button, fill, h, iconButton, openDialog, readable, shortPath, visible } from "./dom.js";
import { Gauge, openContext } from "./gauge.js";
import { Forms } from "./form.js";
import { Permissions } from "./permission.js";
import { RequestError, explain } from "./rpc.js";
import { RowPainter, duration } from "./rows.js";
import { openRules } from "./rules.js";
import { LENGTHS, Sessions, listSessions, startScreen } from "./sessions.js";
import { Timeline } from "./timeline.js";
import { Transcript, eventsOf } from "./transcript.js";
import { VirtualList } from "./virtual.js";

/** @typedef {import("./home.js").Home} Home */
/** @typedef {import("./transcript.js").Row} Row */
/** @typedef {import("../../../clients/typescript/src/protocol").FileCheckpoint} FileCheckpoint */

const PHASES = /** @type {Record<string, string>} */ ({ invoking: "Waiting for the model", streaming: "Answering", dispatching: "Working", compacting: "Compacting" });

const OUTCOMES = /** @type {Record<string, string>} */ ({ restored: "is taken back", removed: "is removed", unchanged: "is as it was", changedSince: "others have changed it: stays", notKept: "was not kept: stays", outside: "is outside: stays" });

/** How many nodes of a stored conversation are shown before it is loaded. */
const PEEKED = 60;

export class Panel {
  folder = "";
  sid = "";
  transcript = new Transcript();
  /** Requests that this daemon knows. @type {Set<string>} */
  #methods = new Set();
  #model = "";
  #isConnected = false;
  /** Fulfilled once the daemon is there and the conversation of before is open; a prompt waits for it. @type {Promise<void>} */
  #ready = Promise.resolve();
  #setReady = () => {};
  /** The prompt that waits for the daemon, empty for none. */
  #early = "";
  /** Whether the conversation has no prompt yet, so that leaving it deletes it. */
  #isUnused = false;
  /** The turns of prompts and commands that were sent from here. @type {Set<string>} */
  #sent = new Set();
  #loading = 0;
  /** @type {Promise<string> | null} */
  #beginning = null;
  /** @type {FileCheckpoint[]} */
  #checkpoints = [];
  /** @type {Map<string, { parent: string | null, at: number }>} */
  #nodes = new Map();
  #busySince = 0;
  #usageTimer = 0;
  #marksKey = "";
  #isRewinding = false;

  /** @param {HTMLElement} root @param {Home} home */
  constructor(root, home) {
    this.home = home;
    const fail = (/** @type {unknown} */ error) => this.fail(error);
    const shared = { home, sid: () => this.sid, folder: () => this.folder, fail };
    this.colours = new Colours((text, named) => (this.#methods.has("sidecar/highlight") ? home.request("sidecar/highlight", { text, ...named }) : Promise.resolve({ runs: [] })));
    this.painter = new RowPainter({
      folder: "", links: { openFile: home.openFile, openLink: home.openLink }, openDiff: home.openDiff,
      rewind: (row) => void this.#rewind(row).catch(fail), fork: (row) => void this.#fork(row).catch(fail),
      drawCompaction: (row) => compactionCard(row, shared), again: (text) => void this.send(text, [], "send").catch(fail),
      openChild: (sid) => void this.open(sid).catch(fail), readChild: (sid) => this.#readChild(sid),
    });
    /** @type {VirtualList<Row>} */
    this.list = new VirtualList({ draw: (row, old) => this.painter.draw(row, old), guess: (row) => this.painter.guess(row), moved: () => this.timeline.place(), label: "Conversation" });
    this.timeline = new Timeline({ goTo: (index) => this.#show(index), shareOf: (index) => this.list.shareOf(index) });
    this.gauge = new Gauge(() => void openContext(home, this.sid, this.folder, fail).catch(fail));
    this.permissions = new Permissions({
      ...shared, changed: () => this.list.refresh(), isTyping: () => this.composer.text !== "", answered: () => this.composer.input.focus(),
      typed: (text) => (this.composer.setText(this.composer.text + text), this.composer.input.focus()),
    });
    this.forms = new Forms({ ...shared, changed: () => this.list.refresh(), answered: () => this.composer.input.focus() });
    this.sessions = new Sessions({ ...shared, open: (sid) => void this.open(sid).catch(fail), begin: () => void this.begin().catch(fail), deleted: (sid) => sid === this.sid && void this.begin().catch(fail) });
    this.completion = new CompletionSource(() => ({ home, sid: this.sid, folder: this.folder }));
    this.composer = new Composer({
      send: (text, images, how) => void this.send(text, images, how).catch((error) => (this.composer.setText(text), fail(error))),
      stop: () => void this.stop().catch(fail),
      typed: () => void this.#started().catch(fail),
      complete: (text, offset) => this.#ready.then(() => this.completion.complete(text, offset)),
      removeQueued: ({ itemId }) => void home.request("sidecar/queue/remove", { sid: this.sid, itemId }).catch(fail),
      editQueued: (item) => void this.#editQueued(item).catch(fail),
      steerQueued: (item) => void this.#steerQueued(item).catch(fail),
      choose: (configId, value) => void home.request("sidecar/session/setConfigOption", { sid: this.sid, configId, value }).then(({ configOptions }) => this.#setOptions(configOptions), fail),
      dropChip: home.dropChip,
    });
    this.back = h("button", { type: "button", class: "link back", hidden: true, onclick: () => void this.open(this.#parent).catch(fail) }, "← Back to the session that it works for");
    this.title = h("button", { type: "button", class: "title", title: "Rename", onclick: () => void this.#rename().catch(fail) });
    this.status = h("div", { class: "status", role: "status" });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.stale = h("button", { type: "button", class: "stale-mark", hidden: true, onclick: () => void openContext(home, this.sid, this.folder, fail).catch(fail) });
    this.plan = h("div", { class: "plan-box" });
    this.toEnd = h("button", { type: "button", class: "to-end", hidden: true, onclick: () => this.list.goToEnd(), "aria-label": "Go to the end" }, "↓ Newest");
    this.list.element.addEventListener("scroll", () => (this.toEnd.hidden = this.list.isAtEnd), { passive: true });
    this.start = h("div", { class: "start-holder" });
    const head = h("header", { class: "head" }, iconButton("menu", "Conversations", () => this.sessions.toggle()), this.title, this.stale, this.gauge.element, iconButton("fold", "Preview a compaction", () => void this.preview().catch(fail)), iconButton("more", "More", () => this.#more()), iconButton("plus", "New conversation", () => void this.begin().catch(fail)));
    const stage = h("div", { class: "stage" }, this.list.element, this.timeline.element, this.start, this.toEnd);
    const foot = h("footer", { class: "foot" }, this.banner, this.permissions.element, this.forms.element, this.plan, this.status, this.composer.element);
    fill(root, this.sessions.element, h("main", { class: "main" }, head, this.back, stage, foot));
    document.addEventListener("keydown", (event) => this.#key(event));
    setInterval(() => this.#drawStatus(), 1000);
    this.#awaitDaemon();
    fill(this.start, startScreen([], "", () => {}));
    this.#draw();
    if (home.kind === "browser") this.composer.input.focus();
  }

  #awaitDaemon() {
    this.#ready = new Promise((resolve) => (this.#setReady = resolve));
  }

  // What the home says.

  /** @param {import("./home.js").Connected} connected */
  async connected(connected) {
    try {
      await this.#connected(connected);
    } finally {
      this.#setReady();
      this.#draw();
    }
  }

  /** @param {import("./home.js").Connected} connected */
  async #connected({ folder, session, methods, model }) {
    const wasConnected = this.folder !== "", wasLost = !this.#isConnected;
    this.folder = this.painter.actions.folder = folder;
    this.#methods = new Set(methods);
    this.#model = model ?? "";
    this.#isConnected = true;
    if (wasConnected && this.sid !== "") {
      const back = wasLost ? `${this.banner.textContent ?? ""} It is back, and the conversation goes on.` : `The conversation is open in process ${this.#joined}, too; this is the same one.`;
      await this.open(this.sid).then(() => this.#say(back, 8000), async (error) => (this.fail(error), await this.begin()));
      return;
    }
    this.banner.hidden = true;
    const sid = await this.#find(session || this.#kept().sid || "").catch((error) => (this.fail(error), ""));
    if (sid !== "") await this.open(sid).catch(async (error) => (this.fail(error), await this.begin()));
    else await this.begin();
    if (this.home.kind === "browser") this.composer.input.focus();
  }

  /** @param {string} reason */
  disconnected(reason) {
    if (this.#isConnected) this.#awaitDaemon();
    this.#isConnected = false;
    this.#beginning = null;
    this.permissions.clear();
    this.forms.clear();
    this.#waitsFor = undefined;
    if (this.transcript.isBusy) this.#keepPart();
    this.transcript.phase = "idle";
    this.#say(`The connection to the daemon is lost: ${reason}.`);
    this.#draw();
  }

  /** @param {string} method @param {any} params */
  receive(method, params) {
    switch (method) {
      case "sidecar/event":
        if (params.sid === this.sid) this.#take(params);
        break;
      case "sidecar/gap":
        if (params.sid === this.sid) void this.open(this.sid).catch((error) => this.fail(error));
        break;
      case "sidecar/permission/resolved":
        this.permissions.resolve(params.permissionId);
        break;
      case "sidecar/elicitResolved":
        this.forms.resolve(params.elicitationId);
        break;
      case "sidecar/sessions/changed":
        for (const line of params.sessions ?? []) if (line.sid === this.sid) this.#waitsFor = line.state === "waiting" ? (line.text ?? "") : undefined;
        this.#drawStatus();
        void this.sessions.refresh();
        break;
    }
  }

  /** @param {import("./permission.js").PermissionRequest} request */
  askPermission(request) {
    const isTyping = this.composer.text !== "";
    this.permissions.ask(request);
    if (!isTyping && document.hasFocus()) this.permissions.focus();
  }

  /** @param {import("./form.js").Elicitation} form */
  askForm(form) {
    this.forms.ask(form);
  }

  /** @param {import("./home.js").Chip[]} chips */
  setChips(chips) {
    this.composer.setChips(chips);
  }

  /** @param {unknown} error */
  fail(error) {
    this.transcript.notice("error", explain(error), "", Date.now());
    this.#draw();
    if (this.sid === "") this.#say(explain(error), 10_000);
  }

  // Conversations.

  /** Show the choice of conversations; the first prompt begins a new one. */
  async begin() {
    await this.#leave("");
    this.transcript = new Transcript();
    this.#checkpoints = [];
    this.gauge.show(null);
    this.composer.setOptions([]);
    this.#draw();
    this.composer.input.focus();
    const recent = this.#isConnected ? await listSessions(this.home, this.folder) : [];
    if (this.sid === "") fill(this.start, startScreen(recent.filter(({ messages }) => messages > 0), this.folder, (sid) => void this.open(sid).catch((error) => this.fail(error))));
  }

  /** Load a conversation and show all of it. @param {string} sid @returns {Promise<void>} */
  open(sid) {
    this.#opening = this.#open(sid);
    return this.#opening;
  }

  /** @type {Promise<void>} */
  #opening = Promise.resolve();
  /** The question that the conversation waits with. @type {string | undefined} */
  #waitsFor;
  /** The session that the shown one works for, empty for none. */
  #parent = "";
  /** The process whose daemon was joined for a conversation that it has open. @type {number | undefined} */
  #joined;

  /** @param {string} sid */
  async #open(sid) {
    await this.#leave(sid);
    const number = ++this.#loading;
    const transcript = new Transcript();
    const early = this.transcript;
    this.sid = sid;
    this.list.goToEnd();
    // What comes before the answer belongs to the state that the answer brings.
    this.transcript = new Transcript();
    try {
      if (early.sid !== sid) await this.#peek(sid, number).catch(() => {});
      const loaded = await this.home.request("sidecar/session/load", { sid, replay: "full" });
      if (number !== this.#loading) return;
      transcript.enter(loaded.snapshot);
      this.#waitsFor = loaded.snapshot.state === "waiting" ? (loaded.snapshot.text ?? "") : undefined;
      transcript.options = loaded.configOptions;
      transcript.usage = loaded.usage;
      this.transcript = transcript;
      this.#parent = loaded.snapshot.kind === "subagent" ? loaded.snapshot.parent ?? "" : "";
      this.back.hidden = this.#parent === "";
      void this.#findChildren(sid, transcript).catch(() => {});
      if (!loaded.integrity.ok) transcript.notice("warning", "Parts of the stored conversation are lost", [...loaded.integrity.repaired, ...loaded.integrity.missing].join("\n"), 0);
    } catch (error) {
      this.transcript = early;
      const pid = error instanceof RequestError ? error.pid : undefined;
      if (number === this.#loading && pid !== undefined && pid !== this.#joined && this.home.join !== undefined) {
        this.#joined = pid;
        this.home.join(pid); // it is opened when that daemon is there
        return;
      }
      if (number === this.#loading) this.sid = "";
      throw error;
    }
    if (this.list.isAtEnd) this.#entered();
    else this.list.keepFromEnd(() => this.#entered());
  }

  /**
   * Show the end of a stored conversation at once: to load a long one takes the daemon a while.
   * @param {string} sid @param {number} number
   */
  async #peek(sid, number) {
    /** @type {import("../../../clients/typescript/src/protocol").NodeView[]} */
    let nodes = [];
    // Pages count from the beginning, and each costs the daemon a look at the whole file.
    const start = (LENGTHS.get(sid) ?? 0) - PEEKED;
    /** @type {string | undefined} */
    let cursor = start > 0 ? String(start) : undefined;
    do {
      /** @type {import("../../../clients/typescript/src/protocol").SessionReadResult} */
      const page = await this.home.request("sidecar/session/read", { sid, limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
      nodes = [...nodes, ...page.nodes].slice(-PEEKED);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    if (number !== this.#loading || nodes.length === 0) return;
    this.transcript = new Transcript();
    for (const event of eventsOf(sid, nodes)) this.transcript.take(event);
    this.list.goToEnd();
    this.#drawNow();
    // Painted before the load is asked for, as its answer may keep the page busy.
    await new Promise((resolve) => setTimeout(resolve));
  }

  /** @returns {{ sid?: string, part?: { text: string, prompt: string } }} what this page has kept over a reload */
  #kept() {
    return this.home.recall();
  }

  /** Keep the answer that breaks off: the daemon stores answers that have ended. */
  #keepPart() {
    const text = this.transcript.newestAnswer();
    if (text !== "") this.home.keep({ sid: this.sid, part: { text, prompt: this.transcript.lastPrompt() } });
  }

  /** Name the sub-agents of the past at their calls. @param {string} sid @param {Transcript} transcript */
  async #findChildren(sid, transcript) {
    const { sessions } = await this.home.request("sidecar/session/list", { parent: sid, archived: true, limit: 1000 });
    for (const child of sessions) if (child.toolCallId) transcript.setChild(child.toolCallId, child.sid);
    if (sessions.length > 0) this.#draw();
  }

  /** The newest steps of a sub-agent. @param {string} sid */
  async #readChild(sid) {
    const { nodes } = await this.home.request("sidecar/session/read", { sid, limit: 1000 });
    const child = new Transcript();
    for (const event of eventsOf(sid, nodes)) child.take(event);
    return child.rows.filter(({ type }) => type !== "user").slice(-PEEKED);
  }

  #entered() {
    const { part, sid } = this.#kept();
    const isOwn = part !== undefined && sid === this.sid;
    this.home.keep({ sid: this.sid, ...(isOwn ? { part } : {}) });
    this.home.follow(this.sid);
    this.#nodes.clear();
    this.#setOptions(this.transcript.options);
    this.#drawNow();
    // Its answer comes behind the conversation of before, which follows the answer to the load.
    void this.#readTimes().then(() => isOwn && sid === this.sid && !this.transcript.isBusy && (this.transcript.addPart(part.text, part.prompt), this.#draw()), (error) => this.fail(error));
    this.#measure();
  }

  /** Leave the shown conversation; one that was never used is deleted. @param {string} next */
  async #leave(next) {
    const left = this.sid;
    if (left === next) return;
    this.sid = "";
    this.#beginning = null;
    if (left === "") return;
    const isUnused = this.#isUnused;
    this.#isUnused = false;
    if (isUnused && this.#isConnected) await this.home.request("sidecar/session/delete", { sid: left }).catch(() => {});
    if (next === "") {
      this.home.keep({});
      this.home.follow("");
    }
  }

  /** The conversation, begun where there is none. @returns {Promise<string>} */
  async #started() {
    await this.#ready;
    await this.#opening.catch(() => {});
    if (this.sid !== "") return this.sid;
    this.#beginning ??= (async () => {
      const made = await this.home.request("sidecar/session/new", { cwd: this.folder, ...(this.#model === "" ? {} : { model: this.#model }) });
      this.sid = made.sid;
      this.#isUnused = true;
      this.back.hidden = true;
      this.transcript = new Transcript();
      this.transcript.enter(made.snapshot);
      this.transcript.options = made.configOptions;
      this.transcript.usage = made.usage;
      this.#entered();
      return made.sid;
    })().finally(() => (this.#beginning = null));
    return this.#beginning;
  }

  /** @param {string} wanted the start of an id, or "last" @returns {Promise<string>} */
  async #find(wanted) {
    if (wanted === "") return "";
    const found = await listSessions(this.home, wanted === "last" ? this.folder : undefined);
    const session = wanted === "last" ? found.find(({ messages }) => messages > 0) : found.find(({ sid }) => sid.startsWith(wanted));
    return session?.sid ?? "";
  }

  // Prompts.

  /** @param {string} text @param {import("./composer.js").Image[]} images @param {"send" | "steer"} how */
  async send(text, images, how) {
    this.#early = text || "a picture";
    this.#drawStatus();
    const sid = await this.#started().finally(() => ((this.#early = ""), this.#drawStatus()));
    this.#isUnused = false;
    this.list.goToEnd();
    /** @type {Record<string, unknown>[]} */
    const input = [{ type: "text", text }, ...this.completion.links(text), ...images.map((image) => ({ type: "image", ...image }))];
    if (how === "steer" && this.transcript.isBusy && !text.startsWith("/")) await this.home.request("sidecar/turn/steer", { sid, input });
    else this.#sent.add((await this.home.request("sidecar/turn/start", { sid, input })).turnId);
  }

  async stop() {
    if (this.sid !== "") await this.home.request("sidecar/turn/interrupt", { sid: this.sid, queue: "keep" });
  }

  /** @param {import("./transcript.js").QueueItem} item */
  async #editQueued(item) {
    await this.home.request("sidecar/queue/remove", { sid: this.sid, itemId: item.itemId });
    const { items } = { items: [item] };
    this.composer.setText(items.flatMap(({ input }) => input.map((block) => String(block.text ?? ""))).join("\n"));
  }

  /** @param {import("./transcript.js").QueueItem} item */
  async #steerQueued(item) {
    const { sid } = this;
    const { items } = await this.home.request("sidecar/queue/list", { sid });
    const whole = items.find(({ itemId }) => itemId === item.itemId);
    if (whole === undefined) return;
    await this.home.request("sidecar/queue/remove", { sid, itemId: item.itemId });
    await this.home.request("sidecar/turn/steer", { sid, input: whole.input });
  }

  // Going back.

  /** @param {import("./transcript.js").UserRow} row */
  async #rewind(row) {
    const { sid } = this;
    const toNode = await this.#parentOf(row);
    const { files } = this.#methods.has("sidecar/checkpoint/diff") ? await this.home.request("sidecar/checkpoint/diff", { sid, toNode: /** @type {string} */ (row.nodeId) }).catch(() => ({ files: [] })) : { files: [] };
    const go = async (/** @type {"keep" | "restore"} */ how) => {
      dialog.close();
      this.#isRewinding = true;
      const done = await this.home.request("sidecar/session/rewind", { sid, toNode, expectHead: null, files: how }).finally(() => (this.#isRewinding = false));
      await this.open(sid);
      this.composer.setText(row.text);
      this.#reportFiles(done.restoredFiles);
    };
    const press = (/** @type {"keep" | "restore"} */ how) => () => void go(how).catch((error) => this.fail(error));
    const changes = files.map((file) => h("details", { class: "change" }, h("summary", {}, shortPath(file.uri, this.folder), h("span", { class: "badge" }, OUTCOMES[file.outcome] ?? file.outcome)), diffView(readUnified(file.diff), `Changes of ${file.uri}`, file.uri)));
    const dialog = openDialog("Go back to before this prompt", h("blockquote", { class: "quoted" }, readable(row.text.slice(0, 400))),
      h("p", {}, "The conversation goes on from here. What came after stays stored, on a branch of its own. The prompt is put into the box."),
      files.length > 0 && [h("h3", {}, "Files that were changed since"), changes],
      h("div", { class: "buttons" }, files.length > 0 && button("Go back, restore the files", press("restore"), "primary"), button(files.length > 0 ? "Go back, keep the files" : "Go back", press("keep"), files.length > 0 ? "" : "primary"), button("Cancel", () => dialog.close())));
  }

  /** @param {import("../../../clients/typescript/src/protocol").FileRestore[]} files */
  #reportFiles(files) {
    const other = files.filter(({ outcome }) => !["restored", "removed", "unchanged"].includes(outcome));
    if (other.length > 0) this.transcript.notice("warning", "Some files stay as they are", other.map((file) => `${shortPath(file.uri, this.folder)}: ${file.reason ?? file.outcome}`).join("\n"), Date.now());
    this.#draw();
  }

  /** @param {import("./transcript.js").UserRow} row @returns {Promise<string | null>} */
  async #parentOf(row) {
    if (!this.#nodes.has(row.nodeId ?? "")) await this.#readTimes();
    return this.#nodes.get(row.nodeId ?? "")?.parent ?? null;
  }

  /** @param {import("./transcript.js").UserRow} row */
  async #fork(row) {
    const atNode = await this.#parentOf(row);
    const made = await this.home.request("sidecar/session/fork", { sid: this.sid, ...(atNode === null ? {} : { atNode }) });
    await this.open(made.sid);
    if (atNode !== null) this.composer.setText(row.text);
  }

  /** @param {FileCheckpoint} checkpoint */
  async #openCheckpoint({ checkpointId, at }) {
    const { sid } = this;
    const { files } = await this.home.request("sidecar/checkpoint/diff", { sid, checkpointId });
    const restore = async () => {
      dialog.close();
      const done = await this.home.request("sidecar/checkpoint/restore", { sid, checkpointId });
      this.#reportFiles(done.files);
      await this.#readTimes();
    };
    const dialog = openDialog(`Files as they were at ${new Date(at).toLocaleTimeString()}`, h("p", {}, "The changes since then. A file that others have changed meanwhile stays as it is."),
      files.map((file) => h("section", { class: "change" }, h("div", { class: "code-head" }, h("span", { class: "path" }, shortPath(file.uri, this.folder)), h("span", { class: "badge" }, OUTCOMES[file.outcome] ?? file.outcome)), file.reason ? h("p", { class: "dim" }, visible(file.reason)) : null, diffView(readUnified(file.diff), `Changes of ${file.uri}`, file.uri))),
      h("div", { class: "buttons" }, button("Take the files back", () => void restore().catch((error) => this.fail(error)), "primary"), button("Cancel", () => dialog.close())));
  }

  // The rest of the head.

  /** Show the effect of a compaction before it is made. */
  async preview() {
    if (this.sid === "") return;
    const engines = this.transcript.options.find(({ id }) => id === "engine")?.options.map(({ value }) => value) ?? [];
    await openPreview({ home: this.home, sid: () => this.sid, folder: () => this.folder, fail: (error) => this.fail(error), engines: () => engines });
  }

  async #rename() {
    if (this.sid === "") return;
    const title = await askText("Rename the conversation", { value: this.transcript.title, label: "Title", go: "Rename" });
    if (title !== null) await this.home.request("sidecar/session/rename", { sid: this.sid, title });
  }

  #more() {
    const run = (/** @type {string} */ label, /** @type {() => Promise<unknown>} */ work) => button(label, () => (dialog.close(), void work().catch((error) => this.fail(error))), "wide");
    const { sid } = this;
    const inSession = sid === "" ? [] : [
      run("Rename…", () => this.#rename()),
      run("Fork", async () => this.open((await this.home.request("sidecar/session/fork", { sid })).sid)),
      run("Undo the newest compaction", () => this.home.request("sidecar/compact/undo", { sid })),
      run("Copy as Markdown", async () => navigator.clipboard.writeText((await this.home.request("sidecar/session/export", { sid })).text ?? "")),
      run("Rules…", () => openRules(this.home, sid, (error) => this.fail(error))),
      run("Show the context", () => openContext(this.home, sid, this.folder, (error) => this.fail(error))),
    ];
    const dialog = openDialog("Conversation", h("div", { class: "menu-list" }, run("New conversation", () => this.begin()), run("Conversations…", async () => this.sessions.toggle(true)), inSession));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.defaultPrevented || document.querySelector("dialog[open]") !== null) return;
    if (event.key === "Escape" && this.transcript.isBusy && !this.sessions.isOpen) void this.stop().catch((error) => this.fail(error));
    else if (event.altKey && event.key === "p") (this.permissions.count > 0 ? this.permissions : this.forms).focus();
    else if (event.altKey && event.key === "i") this.composer.input.focus();
    else return;
    event.preventDefault();
  }

  // Events.

  /** @param {import("./transcript.js").SidecarEvent} event */
  #take(event) {
    const wasBusy = this.transcript.isBusy;
    this.transcript.take(event);
    if (this.transcript.isBusy && !wasBusy) this.#busySince = performance.now();
    // What goes on has nothing to make up for any more.
    if (event.seq > 0 && event.kind === "userMessage" && this.#kept().part !== undefined) this.home.keep({ sid: this.sid });
    switch (event.kind) {
      case "configChanged":
        this.#setOptions(this.transcript.options);
        break;
      case "usage":
        this.gauge.show(event.data);
        if (event.seq > 0) this.#measure();
        break;
      case "sessionChosen":
        // By a command that was typed here; another window stays where it is.
        if (this.#sent.has(event.turnId ?? "")) void this.open(event.data.sid).catch((error) => this.fail(error));
        return;
      case "headMoved":
        if (!this.#isRewinding) void this.open(this.sid).catch((error) => this.fail(error));
        return;
      case "compaction":
        // An undo brings turns back that this transcript may not show where they were.
        if (event.seq > 0 && event.data.status !== "in_progress") this.#measure();
        break;
      case "settled":
      case "faulted":
        this.#measure();
        void this.#readTimes().catch((error) => this.fail(error));
        break;
    }
    this.#draw();
  }

  /** Ask for the parts of the context, soon and once. */
  #measure() {
    clearTimeout(this.#usageTimer);
    this.gauge.show(this.transcript.usage);
    const { sid } = this;
    this.#usageTimer = setTimeout(() => {
      void this.home.request("sidecar/context/usage", { sid, detail: true }).then((usage) => sid === this.sid && this.gauge.show(usage), () => {});
    }, 120);
  }

  /** Learn when the turns were, and where files can be taken back to. */
  async #readTimes() {
    const { sid, transcript } = this;
    if (sid === "") return;
    const [{ nodes }, { checkpoints }] = await Promise.all([
      this.home.request("sidecar/session/tree", { sid }),
      this.#methods.has("sidecar/checkpoint/list") ? this.home.request("sidecar/checkpoint/list", { sid }) : { checkpoints: [] },
    ]);
    if (sid !== this.sid || transcript !== this.transcript) return;
    this.#nodes = new Map(nodes.map(({ id, parent, at }) => [id, { parent, at }]));
    this.#checkpoints = checkpoints;
    for (const row of transcript.rows) {
      if (row.type !== "user" || row.at > 0) continue;
      row.at = this.#nodes.get(row.nodeId ?? "")?.at ?? 0;
      row.version++;
    }
    this.#marksKey = "";
    this.#draw();
  }

  /** @param {import("./transcript.js").ConfigOption[]} options */
  #setOptions(options) {
    this.transcript.options = options;
    this.composer.setOptions(options);
  }

  // Drawing. Rows are drawn with the next frame; the rest is small.

  #frame = 0;

  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#drawNow();
    });
  }

  #drawNow() {
    const { transcript } = this;
    const isEmpty = transcript.rows.length === 0 && (this.sid === "" || this.#isUnused);
    this.start.hidden = !isEmpty;
    this.list.element.hidden = isEmpty;
    this.timeline.element.hidden = isEmpty;
    fill(this.title, transcript.title ? readable(transcript.title) : this.sid === "" ? "Sidecar" : "New conversation");
    this.title.disabled = this.sid === "";
    this.stale.hidden = transcript.stale.size === 0;
    fill(this.stale, `${transcript.stale.size} stale`);
    this.stale.title = `Changed since the model read them: ${[...transcript.stale].map((uri) => shortPath(uri, this.folder)).join(", ")}`;
    this.composer.setBusy(transcript.isBusy);
    this.composer.setQueue(transcript.queue, transcript.queued);
    this.#drawPlan();
    this.#drawStatus();
    this.#drawMarks();
    this.list.show(transcript.rows);
    this.list.drawNow();
    this.toEnd.hidden = this.list.isAtEnd;
  }

  #drawMarks() {
    const { rows } = this.transcript;
    const key = `${rows.length} ${this.#checkpoints.length} ${this.sid} ${this.transcript.compactionId}`;
    if (key === this.#marksKey) return;
    this.#marksKey = key;
    /** @type {import("./timeline.js").Mark[]} */
    const marks = [];
    const waiting = [...this.#checkpoints];
    const place = (/** @type {number} */ index, /** @type {number} */ until) => {
      while (waiting[0] !== undefined && waiting[0].at < until) {
        const checkpoint = /** @type {FileCheckpoint} */ (waiting.shift());
        const names = checkpoint.files.map(({ uri }) => shortPath(uri, this.folder)).join(", ");
        marks.push({ kind: "checkpoint", index, label: `${names}, before ${checkpoint.cause === "turn" ? "they were changed" : "they were taken back"}`, act: () => void this.#openCheckpoint(checkpoint).catch((error) => this.fail(error)) });
      }
    };
    let last = 0;
    rows.forEach((row, index) => {
      if (row.type === "user") {
        if (row.at > 0) place(last, row.at);
        last = index;
        marks.push({ kind: "turn", index, label: row.text.slice(0, 80) });
      } else if (row.type === "compaction" && ["completed", "undone"].includes(row.compaction.status)) {
        marks.push({ kind: "compaction", index, label: row.compaction.postTokens === undefined ? "taken back" : `${row.compaction.preTokens.toLocaleString()} → ${row.compaction.postTokens.toLocaleString()} tokens` });
      } else if (row.type === "notice" && row.severity === "error") marks.push({ kind: "error", index, label: row.title });
    });
    place(last, Infinity);
    this.timeline.show(marks);
  }

  #drawPlan() {
    const { plan } = this.transcript;
    const done = plan.filter(({ status }) => status === "completed").length;
    const isOpen = this.plan.querySelector("details")?.open ?? true;
    if (plan.length === 0 || done === plan.length) return fill(this.plan);
    fill(this.plan, h("details", { class: "plan-list", open: isOpen }, h("summary", {}, `To do: ${done} of ${plan.length}`),
      h("ul", {}, plan.map(({ content, status }) => h("li", { class: status }, h("span", { class: "visually-hidden" }, `${status}: `), readable(content))))));
  }

  #drawStatus() {
    const { transcript } = this;
    if (!this.#isConnected || this.#early !== "") {
      const doing = this.#isConnected ? "Starting the conversation" : this.folder === "" ? "Starting" : "Connecting again";
      return fill(this.status, h("span", { class: "spinner" }), this.#early === "" ? doing : `${doing}; then this is sent: ${readable(this.#early.slice(0, 120))}`);
    }
    if (this.permissions.count + this.forms.count > 0) return fill(this.status, "Waiting for you");
    if (this.#waitsFor !== undefined) return fill(this.status, `Waiting for you: ${readable(this.#waitsFor)}`);
    if (!transcript.isBusy) {
      const { near } = transcript;
      return fill(this.status, near !== null && `A compaction is near: ${near.used.toLocaleString()} of ${near.limit.toLocaleString()} tokens`);
    }
    fill(this.status, h("span", { class: "spinner" }), `${PHASES[transcript.phase] ?? transcript.phase} · ${duration(performance.now() - this.#busySince)}`);
  }

  /** @param {number} index */
  #show(index) {
    this.list.goTo(index);
    const row = this.transcript.rows[index];
    const element = row && this.list.elementOf(row.id);
    element?.classList.add("flash");
    setTimeout(() => element?.classList.remove("flash"), 1200);
  }

  #bannerTimer = 0;

  /** @param {string} text @param {number} [ms] how long to show it; until something else is said by default */
  #say(text, ms) {
    clearTimeout(this.#bannerTimer);
    this.banner.hidden = false;
    fill(this.banner, text);
    if (ms !== undefined) this.#bannerTimer = setTimeout(() => (this.banner.hidden = true), ms);
  }
}

export { RequestError };

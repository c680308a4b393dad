/**
 * What a conversation looks like: the daemon's events folded into rows. Pure; it draws nothing.
 *
 * A row has an id for its life, and a version that rises when it must be drawn again.
 *
 * @typedef {import("../../../clients/typescript/src/protocol").EventData} EventData
 * @typedef {import("../../../clients/typescript/src/protocol").Compaction} Compaction
 * @typedef {import("../../../clients/typescript/src/protocol").DiffContent & { isPart?: boolean }} Change a part of a file has no line numbers
 * @typedef {import("../../../clients/typescript/src/protocol").QueueItem} QueueItem
 * @typedef {import("../../../clients/typescript/src/protocol").PlanItem} PlanItem
 * @typedef {import("../../../clients/typescript/src/protocol").ConfigOption} ConfigOption
 * @typedef {import("../../../clients/typescript/src/protocol").CommandInfo} CommandInfo
 * @typedef {import("../../../clients/typescript/src/protocol").ContextUsage} ContextUsage
 * @typedef {import("../../../clients/typescript/src/protocol").SessionSnapshot} SessionSnapshot
 * @typedef {import("../../../clients/typescript/src/protocol").RestoredFile} RestoredFile
 *
 * @typedef {{ [K in keyof EventData]: { sid: string, seq: number, at: number, kind: K, data: EventData[K], turnId?: string } }[keyof EventData]} SidecarEvent
 *
 * @typedef {{ id: string, version: number, at: number }} Common
 * @typedef {Common & { type: "user", text: string, images: string[], links: string[], nodeId: string | null, from: string }} UserRow
 * @typedef {Common & { type: "answer", text: string, done: boolean }} AnswerRow
 * @typedef {Common & { type: "thinking", text: string, done: boolean }} ThinkingRow
 * @typedef {Common & { type: "tool", callId: string, name: string, title: string, kind: string, input: any, output: string,
 *   done: boolean, isError: boolean, diffs: Change[], locations: { path: string, line?: number }[], child?: string }} ToolRow the session of its sub-agent
 * @typedef {Common & { type: "compaction", compaction: Compaction, summary: string }} CompactionRow
 * @typedef {Common & { type: "restored", files: RestoredFile[], missing: string[] }} RestoredRow
 * @typedef {Common & { type: "notice", severity: string, title: string, text: string, again?: string }} NoticeRow `again` is the prompt of a turn that failed
 * @typedef {Common & { type: "end", stopReason: string, durationMs: number, again: string }} EndRow
 * @typedef {UserRow | AnswerRow | ThinkingRow | ToolRow | CompactionRow | RestoredRow | NoticeRow | EndRow} Row
 */

const BUSY = new Set(["invoking", "streaming", "dispatching", "compacting"]);

export class Transcript {
  /** @type {Row[]} */
  rows = [];
  sid = "";
  phase = "idle";
  turnId = "";
  title = "";
  /** @type {QueueItem[]} */
  queue = [];
  queued = 0;
  /** @type {PlanItem[]} */
  plan = [];
  /** @type {ConfigOption[]} */
  options = [];
  /** @type {CommandInfo[]} */
  commands = [];
  /** @type {ContextUsage | null} */
  usage = null;
  /** @type {{ used: number, limit: number } | null} */
  near = null;
  /** @type {Set<string>} */
  stale = new Set();
  /** How many rules are neither kept nor dismissed. */
  proposed = 0;
  /** The id of the compaction that runs now, empty for none. */
  compactionId = "";
  head = /** @type {string | null} */ (null);
  seq = 0;
  /** @type {Map<string, Row>} */
  #byId = new Map();
  /** The sessions of sub-agents by their calls. @type {Map<string, string>} */
  #children = new Map();
  #count = 0;

  /** @param {SessionSnapshot} snapshot */
  enter(snapshot) {
    this.sid = snapshot.sid;
    this.phase = snapshot.phase;
    this.turnId = snapshot.turnId ?? "";
    this.compactionId = snapshot.compactionId ?? "";
    this.title = snapshot.title;
    this.queue = snapshot.queue;
    this.queued = snapshot.queue.length;
    this.plan = snapshot.plan;
    this.head = snapshot.head;
    this.seq = snapshot.seq;
  }

  get isBusy() {
    return BUSY.has(this.phase);
  }

  /** @param {SidecarEvent} event */
  take(event) {
    if (event.seq > 0) {
      if (event.seq <= this.seq) return;
      this.seq = event.seq;
    }
    const at = event.at;
    switch (event.kind) {
      case "phase":
        this.phase = event.data.phase;
        if (this.isBusy && event.turnId) this.turnId = event.turnId;
        break;
      case "userMessage":
        this.#user(event.data, at);
        break;
      case "textDelta":
        this.#grow("answer", event.data.messageId, event.data.delta, at);
        break;
      case "thinkingDelta":
        this.#grow("thinking", event.data.messageId, event.data.delta, at);
        break;
      case "message":
        this.#message(event.data, at);
        break;
      case "toolStarted":
        this.#endThinking();
        this.#put(`tool:${event.data.toolCallId}:${this.#count++}`, {
          type: "tool", callId: event.data.toolCallId, name: event.data.name, title: event.data.title, kind: event.data.kind,
          input: event.data.input, output: "", done: false, isError: false, diffs: [], locations: event.data.locations, child: this.#children.get(event.data.toolCallId),
        }, at);
        break;
      case "toolProgress": {
        const tool = this.#tool(event.data.toolCallId);
        if (tool !== undefined) this.#change(tool, { output: event.data.content });
        break;
      }
      case "toolFinished": {
        const { toolCallId, content, isError, diffs, locations } = event.data;
        const output = typeof content === "string" ? content : JSON.stringify(content, null, 2);
        const tool = this.#tool(toolCallId);
        if (tool !== undefined) this.#change(tool, { output, isError, diffs: diffs.length > 0 ? diffs : changeOf(tool, output), locations, done: true });
        break;
      }
      case "subagent":
        this.setChild(event.data.toolCallId, event.data.child);
        break;
      case "plan":
        this.plan = event.data.entries;
        break;
      case "usage":
        this.usage = event.data;
        break;
      case "compaction":
        this.#compaction(event.data, at);
        break;
      case "compactionNear":
        this.near = event.data;
        break;
      case "compactionSummaryDelta": {
        const row = this.#byId.get(`compaction:${event.data.compactionId}`);
        if (row?.type === "compaction") this.#change(row, { summary: row.summary + event.data.delta });
        break;
      }
      case "rehydrated":
        // After a compaction its card names them.
        if (this.rows.at(-1)?.type !== "compaction") this.#put(`restored:${this.#count++}`, { type: "restored", files: event.data.files, missing: event.data.missing }, at);
        break;
      case "headMoved":
        this.head = event.data.head;
        break;
      case "fileStale":
        this.stale.add(event.data.uri);
        break;
      case "fileFresh":
        this.stale.delete(event.data.uri);
        break;
      case "retry":
        this.#withdraw(event.data.withdrawn);
        this.notice("warning", `Asking the model again (${event.data.attempt} of ${event.data.max})`, event.data.error, at);
        break;
      case "notice":
        this.notice(event.data.severity, event.data.title, event.data.description, at);
        break;
      case "budgetNear": {
        const { per, usd, tokens, spentUsd, spentTokens } = event.data;
        const parts = [usd !== null && `$${spentUsd.toFixed(2)} of $${usd}`, tokens !== null && `${spentTokens.toLocaleString()} of ${tokens.toLocaleString()} tokens`];
        this.notice("warning", "A budget is nearly used up", `${parts.filter(Boolean).join(" and ")} for this ${per} are spent`, at);
        break;
      }
      case "rulesChanged": {
        const proposed = event.data.rules.filter((rule) => rule.proposed).length;
        if (proposed > this.proposed) this.notice("info", proposed === 1 ? "A rule is proposed" : `${proposed} rules are proposed`, "More, Rules… keeps or dismisses them.", at);
        this.proposed = proposed;
        break;
      }
      case "queue":
        this.queue = event.data.items;
        this.queued = event.data.total;
        break;
      case "configChanged":
        this.options = event.data.configOptions;
        break;
      case "commandsChanged":
        this.commands = event.data.commands;
        break;
      case "infoChanged":
        this.title = event.data.title;
        break;
      case "settled":
        this.#end(event.data.head, event.data.usage);
        if (event.data.stopReason !== "end_turn" || event.data.durationMs >= 5000) {
          this.#put(`end:${this.#count++}`, { type: "end", stopReason: event.data.stopReason, durationMs: event.data.durationMs, again: event.data.stopReason === "cancelled" ? this.lastPrompt() : "" }, at);
        }
        break;
      case "faulted":
        this.#end(event.data.head, event.data.usage);
        this.notice("error", "The turn failed", event.data.message, at, this.lastPrompt());
        break;
    }
  }

  /** The text of the newest prompt, empty for none. */
  lastPrompt() {
    const row = this.rows.findLast(({ type }) => type === "user");
    return row?.type === "user" ? row.text : "";
  }

  /** The newest answer, as far as it has come; empty where none came since the newest prompt. */
  newestAnswer() {
    const row = this.rows.findLast(({ type }) => type === "answer" || type === "user");
    return row?.type === "answer" ? row.text : "";
  }

  /** Show as much of the newest answer as came before the daemon ended, which stored nothing of it. @param {string} text @param {string} prompt */
  addPart(text, prompt) {
    if (this.newestAnswer() !== "" || this.lastPrompt() !== prompt) return;
    this.#put(`answer:part:${this.#count++}`, { type: "answer", text, done: true }, 0);
    const row = this.rows.pop(), end = this.rows.findLastIndex(({ type }) => type !== "notice");
    if (row !== undefined) this.rows.splice(end + 1, 0, row);
  }

  /** Show the steps of a sub-agent below its call. @param {string} callId @param {string} sid */
  setChild(callId, sid) {
    this.#children.set(callId, sid);
    const tool = this.#tool(callId);
    if (tool !== undefined) this.#change(tool, { child: sid });
  }

  /** @param {string} severity @param {string} title @param {string} text @param {number} at @param {string} [again] */
  notice(severity, title, text, at, again) {
    this.#put(`notice:${this.#count++}`, { type: "notice", severity, title, text, again }, at);
  }

  /** @param {string | null} head @param {ContextUsage} usage */
  #end(head, usage) {
    this.phase = "settled";
    this.turnId = "";
    this.head = head;
    this.usage = usage;
    this.#endThinking();
    for (let index = this.rows.length - 1; index >= 0; index--) {
      const row = /** @type {Row} */ (this.rows[index]);
      if (row.type === "user") break;
      if ("done" in row && !row.done) this.#change(row, { done: true });
    }
  }

  /** @param {EventData["userMessage"]} data @param {number} at */
  #user({ nodeId, content, source }, at) {
    const blocks = /** @type {{ type: string, text?: string, data?: string, mimeType?: string, uri?: string, name?: string }[]} */ (content);
    const images = blocks.filter((block) => block.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(block.mimeType ?? ""));
    this.#put(`user:${nodeId ?? ""}:${this.#count++}`, {
      type: "user",
      text: blocks.flatMap((block) => (block.type === "text" ? [block.text ?? ""] : [])).join("\n"),
      images: images.map((block) => `data:${block.mimeType};base64,${block.data}`),
      links: blocks.flatMap((block) => (block.type.startsWith("resource") && block.uri ? [block.uri] : [])),
      nodeId,
      from: source?.name ?? "",
    }, at);
  }

  /** @param {"answer" | "thinking"} type @param {string} messageId @param {string} delta @param {number} at */
  #grow(type, messageId, delta, at) {
    if (type === "answer") this.#endThinking(messageId);
    const row = this.#byId.get(`${type}:${messageId}`);
    if (row?.type === type) {
      row.text += delta;
      row.version++;
    } else this.#put(`${type}:${messageId}`, { type, text: delta, done: false }, at);
  }

  /** An answer that broke off counts no more, and comes again under another id. @param {string | undefined} messageId */
  #withdraw(messageId) {
    for (const type of ["thinking", "answer"]) {
      const row = this.#byId.get(`${type}:${messageId}`);
      if (row?.type === "thinking" || row?.type === "answer") this.#change(row, { text: "", done: true });
    }
  }

  /** The message restates its deltas, and is all there is where none came. @param {EventData["message"]} data @param {number} at */
  #message({ messageId, content }, at) {
    const blocks = /** @type {{ type: string, text?: string }[]} */ (content);
    for (const type of /** @type {const} */ (["thinking", "answer"])) {
      const kind = type === "answer" ? "text" : "thinking";
      const text = blocks.flatMap((block) => (block.type === kind ? [block.text ?? ""] : [])).join("\n\n");
      const row = this.#byId.get(`${type}:${messageId}`);
      if (row?.type === type) this.#change(row, { text: text || row.text, done: true });
      else if (text) this.#put(`${type}:${messageId}`, { type, text, done: true }, at);
    }
  }

  /** Thinking is over once something else begins. @param {string} [messageId] */
  #endThinking(messageId) {
    const last = this.rows.at(-1);
    if (last?.type === "thinking" && !last.done && (messageId === undefined || last.id === `thinking:${messageId}`)) {
      this.#change(last, { done: true });
    }
  }

  /** @param {Compaction} compaction @param {number} at */
  #compaction(compaction, at) {
    this.compactionId = compaction.status === "in_progress" ? compaction.compactionId : "";
    if (compaction.status === "completed") this.near = null;
    const id = `compaction:${compaction.compactionId}`;
    const row = this.#byId.get(id);
    if (row?.type === "compaction") this.#change(row, { compaction });
    else this.#put(id, { type: "compaction", compaction, summary: "" }, at);
  }

  /** @param {string} callId @returns {ToolRow | undefined} */
  #tool(callId) {
    for (let index = this.rows.length - 1; index >= 0; index--) {
      const row = this.rows[index];
      if (row?.type === "tool" && row.callId === callId) return row;
    }
    return undefined;
  }

  /** @param {string} id @param {object} row @param {number} at */
  #put(id, row, at) {
    const made = /** @type {Row} */ ({ id, version: 0, at, ...row });
    this.#byId.set(id, made);
    this.rows.push(made);
  }

  /** @template {Row} R @param {R} row @param {Partial<R>} change */
  #change(row, change) {
    Object.assign(row, change);
    row.version++;
  }
}

/**
 * Return the stored nodes of a conversation as events of its past, for a view of it before it is loaded.
 * @param {string} sid
 * @param {import("../../../clients/typescript/src/protocol").NodeView[]} nodes
 * @returns {SidecarEvent[]}
 */
export function eventsOf(sid, nodes) {
  return nodes.flatMap(({ id, role, blocks }) => {
    const event = (/** @type {string} */ kind, /** @type {object} */ data) => /** @type {SidecarEvent} */ ({ sid, seq: 0, at: 0, kind, data });
    const said = blocks.filter(({ kind }) => kind === "text" || kind === "thinking").map(({ kind, text }) => ({ type: kind, text }));
    const first = role === "user" ? [event("userMessage", { nodeId: id, content: said })] : role === "assistant" && said.length > 0 ? [event("message", { messageId: id, content: said })] : [];
    const tools = blocks.flatMap((block) => {
      const common = { toolCallId: block.id ?? block.callId, locations: [] };
      if (block.kind === "tool_call") return [event("toolStarted", { ...common, name: block.name, title: String(block.name), kind: "other", input: block.input })];
      return block.kind === "tool_result" ? [event("toolFinished", { ...common, content: block.output ?? "", isError: Boolean(block.isError ?? block.is_error), diffs: [] })] : [];
    });
    return [...first, ...tools];
  });
}

/**
 * The change that a call of the past asked for; its result has it no more. Where the user kept a part, the result tells it.
 * @param {ToolRow} tool
 * @param {string} output
 * @returns {Change[]}
 */
function changeOf({ input, kind, locations }, output) {
  if (kind !== "edit" || typeof input !== "object" || input === null || /^\[the user kept \d/m.test(output)) return [];
  const path = locations[0]?.path ?? (typeof input.path === "string" ? input.path : "");
  /** @type {any[]} */
  const asked = Array.isArray(input.edits) ? input.edits : [input];
  const edits = asked.map((edit) => [edit?.oldText ?? edit?.old_text, edit?.newText ?? edit?.new_text]);
  if (edits.every(([before, after]) => typeof before === "string" && typeof after === "string")) {
    return edits.map(([oldText, newText]) => ({ path, oldText, newText, isPart: true }));
  }
  return typeof input.content === "string" ? [{ path, oldText: null, newText: input.content }] : [];
}

/** Compactions: the card in the conversation, the preview before one, the facts, and the comparison after one. */

import { compareLines, diffView, foldKept } from "./diff.js";
import { button, fill, h, icon, openDialog, plural, readable, shortPath, tokens, visible } from "./dom.js";
import { markdown } from "./markdown.js";

/** @typedef {import("./transcript.js").Compaction} Compaction */
/** @typedef {import("../../../clients/typescript/src/protocol").Loss} Loss */
/** @typedef {import("../../../clients/typescript/src/protocol").Plan} Plan */
/** @typedef {import("../../../clients/typescript/src/protocol").NodeView} NodeView */

const KINDS = /** @type {Record<string, string>} */ ({
  request: "requests", outcome: "answers", modified: "changed files", read: "read files", command: "commands", search: "looked up", error: "errors",
});
const STATES = /** @type {Record<string, string>} */ ({ kept: "whole", shortened: "thinned", line: "in one line", gone: "let go" });
const TRIGGERS = /** @type {Record<string, string>} */ ({ manual: "by hand", auto: "by itself", overflow: "after the window overflowed", undo: "undo", expand: "expanded" });

/**
 * @typedef {object} CompactionActions
 * @property {import("./home.js").Home} home
 * @property {() => string} sid
 * @property {() => string} folder
 * @property {(error: unknown) => void} fail
 */

/** Two bars, before and after. @param {number} before @param {number} after @param {number} [whole] */
function bars(before, after, whole = before) {
  const bar = (/** @type {string} */ name, /** @type {number} */ count) => {
    const part = h("span", { class: `size-fill ${name}` });
    part.style.width = `${Math.min(100, (100 * count) / Math.max(1, whole))}%`;
    return h("div", { class: "size" }, h("span", { class: "size-name" }, name), h("span", { class: "size-bar" }, part), h("span", { class: "size-count" }, tokens(count)));
  };
  return h("div", { class: "sizes", role: "img", "aria-label": `before ${before.toLocaleString()} tokens, after ${after.toLocaleString()}` }, bar("before", before), bar("after", after));
}

/** @param {Loss | undefined} loss */
function lossBar(loss) {
  if (loss === undefined) return null;
  const line = loss.line ?? 0;
  const all = loss.kept + loss.shortened + line + loss.gone;
  if (all === 0) return null;
  const part = (/** @type {string} */ name, /** @type {number} */ count) => {
    const made = h("span", { class: `loss-part ${name}` });
    made.style.width = `${(100 * count) / all}%`;
    return made;
  };
  const share = loss.share === undefined ? "" : ` · ${Math.round(100 * loss.share)} % of the text`;
  const counts = [`${loss.kept} whole`, `${loss.shortened} thinned`, `${line} in one line of several`, `${loss.gone} let go`].filter((each) => !each.startsWith("0 "));
  return h("div", { class: "loss" }, h("span", { class: "loss-bar", "aria-hidden": "true" }, part("kept", loss.kept), part("shortened", loss.shortened), part("line", line), part("gone", loss.gone)), h("span", {}, `${plural(all, "fact")} of the folded part: ${counts.join(", ")}${share}`));
}

/**
 * Return the card of a compaction.
 * @param {import("./transcript.js").CompactionRow} row
 * @param {CompactionActions} actions
 */
export function compactionCard(row, actions) {
  const { compaction } = row;
  const { home, fail } = actions;
  const sid = actions.sid();
  const run = (/** @type {() => Promise<unknown>} */ work) => () => void work().catch(fail);
  const isDone = compaction.status === "completed";
  const titles = /** @type {Record<string, string>} */ ({ in_progress: "Compacting the conversation", completed: compaction.trigger === "expand" ? "Originals are back" : "Compacted", noop: "Nothing to compact", failed: "The compaction failed", cancelled: "The compaction was cancelled", undone: compaction.trigger === "expand" ? "Originals were back, and are folded again" : "Compacted, and taken back" });
  const head = h("div", { class: "card-head" }, compaction.status === "in_progress" ? h("span", { class: "spinner" }) : icon(compaction.status === "failed" ? "warn" : "fold"),
    h("strong", {}, titles[compaction.status] ?? compaction.status), h("span", { class: "dim" }, [TRIGGERS[compaction.trigger] ?? compaction.trigger, compaction.engine, compaction.summarySource === "localFallback" ? "without a model" : ""].filter(Boolean).join(" · ")));
  const why = compaction.reason ?? compaction.error;
  /** @type {(Node | false | null)[]} */
  const body = [why !== undefined && h("p", {}, visible(why))];
  if (compaction.postTokens !== undefined) {
    const restored = compaction.rehydrated;
    body.push(bars(compaction.preTokens, compaction.postTokens),
      h("p", { class: "facts" }, [compaction.droppedCount > 0 ? `${plural(compaction.droppedCount, "message")} folded` : "", compaction.postCount === undefined ? "" : `${plural(compaction.preCount - compaction.droppedCount, "message")} kept`, compaction.microcompacted > 0 ? `${plural(compaction.microcompacted, "old result")} blanked` : "", restored.length > 0 ? `${plural(restored.length, "file")} restored` : ""].filter(Boolean).join(" · ")),
      restored.length > 0 && h("div", { class: "chips" }, restored.map((uri) => h("span", { class: "chip" }, icon("file"), shortPath(uri, actions.folder())))),
      lossBar(compaction.loss));
  } else if (row.summary !== "") body.push(h("p", { class: "dim streaming-line" }, row.summary.slice(-240)));
  const buttons = [];
  if (compaction.status === "in_progress") buttons.push(button("Cancel", run(() => home.request("sidecar/compact/cancel", { sid, compactionId: compaction.compactionId }))));
  if (isDone || compaction.status === "undone") {
    buttons.push(button("Summary", run(() => openSummary(compaction, actions))), button("Facts", run(() => openFacts(compaction, actions))),
      button("Compare", run(async () => (home.openComparison ? home.openComparison(sid, compaction.compactionId) : openComparison(compaction, actions)))));
  }
  if (isDone && compaction.undoable) buttons.push(button("Undo", run(() => undo(compaction, actions))));
  return h("section", { class: `row card compaction ${compaction.status}`, "aria-label": titles[compaction.status] ?? "Compaction" }, head, body.filter(Boolean), buttons.length > 0 && h("div", { class: "buttons" }, buttons));
}

/** @param {Compaction} compaction @param {CompactionActions} actions */
async function undo({ compactionId }, { home, sid, fail }) {
  try {
    await home.request("sidecar/compact/undo", { sid: sid(), compactionId });
  } catch (error) {
    if (/** @type {{ kind?: string }} */ (error).kind !== "wouldExceedWindow") throw error;
    const force = () => void home.request("sidecar/compact/undo", { sid: sid(), compactionId, force: true }).then(() => dialog.close(), fail);
    const dialog = openDialog("It does not fit", h("p", {}, "With the folded messages back, the next request does not fit the window of the model. The next prompt would compact again."), h("div", { class: "buttons" }, button("Undo all the same", force, "primary"), button("Leave it", () => dialog.close())));
  }
}

/** @param {Compaction} compaction @param {CompactionActions} actions */
async function openSummary({ compactionId }, { home, sid }) {
  const { content } = await home.request("sidecar/compact/read", { sid: sid(), compactionId, part: "summary" });
  openDialog("The summary that the model sees", content === "" ? h("p", { class: "dim" }, "There is no summary.") : markdown(content));
}

/** @param {Compaction} compaction @param {CompactionActions} actions */
async function openFacts({ compactionId }, { home, sid, fail }) {
  const list = h("div", { class: "fact-list" });
  const counts = h("div", {});
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "How the model sees them" });
  const resolutions = /** @type {const} */ (["kept", "shortened", "line", "gone"]);
  /** The texts of the folded turns by their nodes, read when the first one is looked at. @type {Promise<Map<string, string>> | null} */
  let turns = null;
  const done = (/** @type {HTMLButtonElement} */ pressed, /** @type {string} */ words) => {
    pressed.disabled = true;
    pressed.textContent = words;
  };
  const pin = async (/** @type {string} */ factId, /** @type {HTMLButtonElement} */ pressed) => {
    await home.request("sidecar/context/pin", { sid: sid(), factId });
    done(pressed, "Pinned");
  };
  const bringBack = async (/** @type {string} */ nodeId, /** @type {HTMLButtonElement} */ pressed) => {
    await home.request("sidecar/context/expand", { sid: sid(), nodeIds: [nodeId] });
    done(pressed, "Back");
  };
  const look = async (/** @type {string} */ nodeId, /** @type {Element} */ fact) => {
    turns ??= readTurns(home, sid(), compactionId, "before").then((nodes) => new Map(nodes.map((node) => [node.id, nodeText(node)])));
    const text = (await turns).get(nodeId) ?? "It is on no branch any more.";
    fact.querySelector(".entry")?.remove();
    fact.append(h("pre", { class: "output entry", tabindex: "0" }, readable(text)));
  };
  const show = async (/** @type {typeof resolutions[number]} */ state) => {
    const { facts = [], loss } = await home.request("sidecar/compact/read", { sid: sid(), compactionId, part: "loss", limit: 200, states: [state] });
    fill(counts, lossBar(loss));
    fill(tabs, resolutions.filter((each) => each === state || (loss?.[each] ?? 0) > 0).map((each) => {
      const tab = button(`${STATES[each]} (${loss?.[each] ?? 0})`, () => void show(each).catch(fail), each === state ? "chosen" : "");
      tab.setAttribute("aria-pressed", String(each === state));
      return tab;
    }));
    fill(list, facts.length === 0 ? h("p", { class: "dim" }, "The folded part has no facts.") : facts.map((fact) => {
      const looked = button("Look", () => void look(fact.nodeId, row).catch(fail), "small");
      looked.title = "Show the whole message as it was said";
      const back = button("Bring back", () => void bringBack(fact.nodeId, back).catch(fail), "small");
      back.title = "Let the model see the whole message again, in its place; Undo takes it back";
      const keep = button(fact.pinned ? "Pinned" : "Pin", () => void pin(fact.factId, keep).catch(fail), "small");
      keep.disabled = fact.pinned;
      keep.title = "Let the model see it word for word in each request";
      const place = fact.place === undefined ? null : h("span", { class: "dim" }, `#${fact.place}`);
      const row = h("div", { class: "fact" }, h("span", { class: "badge" }, KINDS[fact.kind] ?? fact.kind), place, h("span", { class: "fact-text" }, readable(fact.text)), looked, back, keep);
      return row;
    }), facts.length < (loss?.[state] ?? 0) && h("p", { class: "dim" }, `and ${plural((loss?.[state] ?? 0) - facts.length, "more")}`));
  };
  const { loss } = await home.request("sidecar/compact/read", { sid: sid(), compactionId, part: "loss", limit: 1 });
  // What the model sees least of comes first: that is what somebody looks for.
  await show([...resolutions].reverse().find((each) => (loss?.[each] ?? 0) > 0) ?? "kept");
  openDialog("The facts behind the compaction", counts, tabs, list);
}

/** Read all turns around a compaction. @param {CompactionActions["home"]} home @param {string} sid @param {string} compactionId @param {string} at @returns {Promise<NodeView[]>} */
async function readTurns(home, sid, compactionId, at) {
  /** @type {NodeView[]} */
  const nodes = [];
  let cursor;
  do {
    /** @type {import("../../../clients/typescript/src/protocol").SessionReadResult} */
    const page = await home.request("sidecar/session/read", { sid, view: { compactionId, at }, limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
    for (const node of page.nodes) nodes.push(node);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return nodes;
}

/** @param {Compaction} compaction @param {CompactionActions} actions */
async function openComparison({ compactionId }, { home, sid }) {
  const [before, after] = await Promise.all(["before", "after"].map(async (at) => (await readTurns(home, sid(), compactionId, at)).map(nodeText).join("\n")));
  openDialog("The conversation that the model sees, before and after", diffView(foldKept(compareLines(before ?? "", after ?? "")), "Before and after the compaction", ""));
}

/** @param {NodeView} node */
function nodeText({ role, blocks }) {
  const texts = blocks.map((block) => String(block.text ?? block.output ?? (block.name === undefined ? "" : `${String(block.name)} ${JSON.stringify(block.input)}`)));
  return `── ${role}\n${texts.join("\n")}`;
}

/**
 * Show the effect of a compaction before it is made, by any engine.
 * @param {CompactionActions & { engines: () => string[] }} actions
 */
export async function openPreview(actions) {
  const { home, sid, folder, fail, engines } = actions;
  const plans = h("div", { class: "plans" }, h("p", { class: "dim" }, "Planning…"));
  const instructions = h("textarea", { class: "text", rows: "2", "aria-label": "Instructions for the summary", placeholder: "Instructions for the summary (optional)" });
  const dialog = openDialog("Preview of a compaction", h("p", {}, "No model is called for it, and nothing changes until you compact."), plans, instructions);
  const start = async (/** @type {Plan} */ plan) => {
    const text = instructions.value.trim();
    const how = text === "" ? { planId: plan.planId } : { engine: plan.engine, instructions: text };
    await home.request("sidecar/compact/start", { sid: sid(), ...how });
    dialog.close();
  };
  const draw = (/** @type {Plan} */ plan) => {
    const body = plan.noop !== undefined ? [h("p", { class: "dim" }, visible(plan.noop.reason))] : [
      bars(plan.preTokens ?? plan.gate.tokens, plan.projected?.tokens ?? plan.gate.tokens, Math.max(plan.preTokens ?? plan.gate.tokens, plan.gate.limit)),
      h("p", { class: "facts" }, [`${plural(plan.dropped?.count ?? 0, "message")} folded (${tokens(plan.dropped?.tokens ?? 0)})`, `${plural(plan.kept?.count ?? 0, "message")} kept (${tokens(plan.kept?.tokens ?? 0)})`, plan.microcompact?.blanked ? `${plural(plan.microcompact.blanked, "old result")} blanked` : "", plan.projected && plan.projected.low < plan.projected.high ? `${tokens(plan.projected.low)} to ${tokens(plan.projected.high)} tokens after it` : ""].filter(Boolean).join(" · ")),
      plan.rehydrate.length > 0 && h("div", { class: "chips" }, plan.rehydrate.map((file) => h("span", { class: "chip" }, icon("file"), shortPath(file.uri, folder()), h("span", { class: "dim" }, tokens(file.tokens)), file.stale && h("span", { class: "badge warn" }, "stale")))),
      lossBar(plan.loss),
      h("div", { class: "buttons" }, button("Compact", () => void start(plan).catch(fail), "primary")),
    ];
    return h("section", { class: "plan" }, h("h3", {}, plan.engine), body.filter(Boolean));
  };
  try {
    const own = await home.request("sidecar/compact/preview", { sid: sid(), mode: "force" });
    const others = engines().filter((engine) => engine !== own.engine && engine !== "none");
    const compare = others.length > 0 && button("Compare the other engines", () => void home.request("sidecar/compact/compare", { sid: sid(), engines: others, mode: "force" }).then((found) => fill(plans, draw(own), found.plans.map(draw)), fail));
    fill(plans, draw(own), compare);
  } catch (error) {
    dialog.close();
    throw error;
  }
}

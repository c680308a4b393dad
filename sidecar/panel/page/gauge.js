/** How full the model's window is: a bar by category, with a mark where a compaction is due. */

import { button, fill, h, openDialog, shortPath, tokens } from "./dom.js";

/** @typedef {import("./transcript.js").ContextUsage} ContextUsage */
/** @typedef {import("../../../clients/typescript/src/protocol").UsageBy} UsageBy */

/** @type {readonly [keyof UsageBy, string][]} */
const CATEGORIES = [
  ["system", "System prompt"],
  ["toolDefs", "Tools"],
  ["rules", "The user's rules"],
  ["summary", "Summaries"],
  ["user", "Your prompts"],
  ["assistant", "Answers"],
  ["thinking", "Thinking"],
  ["toolResults", "Tool results"],
  ["files", "Restored files"],
  ["images", "Images"],
];

export class Gauge {
  /** @type {ContextUsage | null} */
  #usage = null;

  /** @param {() => void} open */
  constructor(open) {
    this.bar = h("span", { class: "gauge-bar" });
    this.label = h("span", { class: "gauge-label" });
    this.element = h("button", { type: "button", class: "gauge", onclick: open, hidden: true }, this.bar, this.label);
  }

  /** @param {ContextUsage | null} usage the parts by category stay from before where they are missing */
  show(usage) {
    this.#usage = usage && { ...usage, by: usage.by ?? this.#usage?.by, limitWhy: usage.limitWhy ?? this.#usage?.limitWhy };
    this.element.hidden = usage === null;
    if (this.#usage === null) return;
    fill(this.bar, segments(this.#usage));
    const { used, window, limit, pct, cost } = this.#usage;
    const share = window > 0 ? `${tokens(used)} of ${tokens(window)} · ${Math.round(pct)} %` : `${tokens(used)} tokens`;
    fill(this.label, share, cost ? ` · $${cost.toFixed(cost < 1 ? 3 : 2)}` : "");
    const due = dueText(this.#usage);
    this.element.setAttribute("aria-label", `Context: ${share}${due && `, ${due}`}. Show the parts`);
    this.element.title = [`The next request fills ${share}, ${sourceText(this.#usage)}`, due].filter(Boolean).join("\n");
    this.element.classList.toggle("over", window > 0 && used > limit);
    this.element.classList.toggle("near", window > 0 && used > limit * 0.75 && used <= limit);
  }
}

/** Who counted it. @param {ContextUsage} usage */
const sourceText = ({ source }) => (source === "provider" ? "as counted by the provider" : "estimated");

/** Where a compaction is due, and why there; empty where it is never due. @param {ContextUsage} usage */
function dueText({ window, limit, limitWhy }) {
  return limitWhy === undefined ? "" : `a compaction is due at ${limit.toLocaleString()} (${Math.round((100 * limit) / window)} %): ${limitWhy}`;
}

/** @param {ContextUsage} usage @returns {HTMLElement[]} */
export function segments({ used, window, limit, by }) {
  const whole = window > 0 ? window : Math.max(used, 1);
  const parts = by === undefined ? /** @type {[string, number][]} */ ([["all", used]]) : CATEGORIES.map(([name]) => /** @type {[string, number]} */ ([name, by[name]]));
  const sum = parts.reduce((total, [, count]) => total + count, 0) || 1;
  const made = parts.filter(([, count]) => count > 0).map(([name, count]) => {
    const part = h("span", { class: `gauge-part ${name}` });
    part.style.width = `${(100 * Math.min(used, whole) * count) / sum / whole}%`;
    return part;
  });
  if (window > 0 && limit > 0) {
    const mark = h("span", { class: "gauge-mark" });
    mark.style.left = `${Math.min(100, (100 * limit) / window)}%`;
    made.push(mark);
  }
  return made;
}

/**
 * Show the parts of the context, and the files in it.
 * @param {import("./home.js").Home} home
 * @param {string} sid
 * @param {string} folder
 * @param {(error: unknown) => void} fail
 */
export async function openContext(home, sid, folder, fail) {
  const [usage, { files }] = await Promise.all([home.request("sidecar/context/usage", { sid, detail: true }), home.request("sidecar/context/files", { sid })]);
  const bar = h("span", { class: "gauge-bar large" }, segments(usage));
  const rows = CATEGORIES.flatMap(([name, label]) => {
    const count = usage.by?.[name] ?? 0;
    return count === 0 ? [] : [h("tr", {}, h("td", {}, h("span", { class: `swatch ${name}` }), label), h("td", { class: "align-right" }, count.toLocaleString()), h("td", { class: "align-right dim" }, `${((100 * count) / Math.max(1, usage.used)).toFixed(0)} %`))];
  });
  const drop = async (/** @type {import("../../../clients/typescript/src/protocol").ContextFile} */ file) => {
    if (file.readAtNode === null) return;
    await home.request("sidecar/context/drop", { sid, nodeIds: [file.readAtNode], expectHead: null });
    dialog.close();
  };
  const open = home.openFile;
  const listed = files.map((file) => h("tr", {},
    h("td", { class: "path" }, open ? h("button", { type: "button", class: "link", onclick: () => open(file.uri) }, shortPath(file.uri, folder)) : shortPath(file.uri, folder),
      file.stale && h("span", { class: "badge warn", title: "It has changed since the model read it" }, "stale"),
      !file.inWindow && h("span", { class: "badge", title: "A compaction has folded it away" }, "not seen")),
    h("td", { class: "align-right" }, file.tokens.toLocaleString()),
    h("td", { class: "align-right" }, file.inWindow && file.readAtNode !== null && button("Drop", () => void drop(file).catch(fail), "small"))));
  const total = `${usage.used.toLocaleString()}${usage.window > 0 ? ` of ${usage.window.toLocaleString()}` : ""} tokens in the next request, ${sourceText(usage)}${usage.window > 0 ? "" : "; the window of this model is not known"}`;
  const due = dueText(usage);
  const sum = h("tr", {}, h("td", {}, "Together"), h("td", { class: "align-right" }, usage.used.toLocaleString()), h("td", { class: "align-right dim" }, "100 %"));
  const rules = (usage.rules ?? []).map((rule) => h("tr", {}, h("td", { class: "path" }, shortPath(rule.uri, folder)), h("td", { class: "align-right" }, rule.tokens.toLocaleString()), h("td")));
  const dialog = openDialog("Context", h("p", {}, total), bar, due && h("p", { class: "dim due" }, `The line: ${due}.`), h("table", { class: "plain" }, h("tbody", {}, rows, sum)),
    h("h3", {}, "Files that the model has read"), files.length === 0 ? h("p", { class: "dim" }, "none yet") : h("table", { class: "plain" }, h("tbody", {}, listed)),
    rules.length > 0 && [h("h3", {}, "Rule files"), h("table", { class: "plain" }, h("tbody", {}, rules))]);
}

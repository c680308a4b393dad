/** The rules of the user: set, taken back, and those that were proposed kept or dismissed. */

import { button, fill, h, openDialog, plural, readable } from "./dom.js";

/** @typedef {import("../../../clients/typescript/src/protocol").SessionRule} SessionRule */

const ORIGINS = /** @type {Record<SessionRule["source"], string>} */ ({ user: "set by hand", summary: "proposed by a summary", found: "found by an earlier version" });

/**
 * Show the rules that hold in a conversation.
 * @param {import("./home.js").Home} home
 * @param {string} sid
 * @param {(error: unknown) => void} fail
 */
export async function openRules(home, sid, fail) {
  const list = h("div", { class: "fact-list" });
  const input = h("input", { class: "text", "aria-label": "A new rule", placeholder: "A new rule, word for word" });
  const press = (/** @type {string} */ label, /** @type {() => Promise<unknown>} */ change, more = "small") => button(label, () => void change().then(show).catch(fail), more);
  const add = async () => {
    if (input.value.trim() === "") return;
    await home.request("sidecar/rule/add", { sid, text: input.value.trim() });
    input.value = "";
    await show();
  };
  const show = async () => {
    const { rules } = await home.request("sidecar/rule/list", { sid });
    const proposed = rules.filter((rule) => rule.proposed).length;
    fill(list, rules.length === 0 && h("p", { class: "dim" }, "There are none."), rules.map((rule) => h("div", { class: "fact" },
      h("span", { class: `badge ${rule.proposed ? "warn" : ""}` }, ORIGINS[rule.source] ?? rule.source),
      h("span", { class: "fact-text" }, readable(rule.text), rule.quote !== undefined && rule.quote !== rule.text && h("span", { class: "dim" }, ` from “${readable(rule.quote)}”`),
        rule.conflicts.map((text) => h("span", { class: "dim" }, ` perhaps taken back by “${readable(text)}”`))),
      rule.proposed ? [press("Keep", () => home.request("sidecar/rule/keep", { sid, rule: rule.id })), press("Dismiss", () => home.request("sidecar/rule/dismiss", { sid, rule: rule.id }))]
        : press("Take back", () => home.request("sidecar/rule/remove", { sid, rule: rule.id })))),
    proposed > 1 && h("div", { class: "buttons" }, press(`Dismiss all ${plural(proposed, "proposed rule")}`, () => home.request("sidecar/rule/dismiss", { sid }), ""), press("Keep all", () => home.request("sidecar/rule/keep", { sid }), "")));
  };
  await show();
  const form = h("form", { class: "ask", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void add().catch(fail)) }, input, h("button", { class: "button primary" }, "Set"));
  openDialog("Rules", h("p", {}, "The model sees them word for word, also after a compaction."), list, form);
}

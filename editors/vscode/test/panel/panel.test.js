import { afterAll, beforeEach, expect, test, vi } from "vitest";
import { Panel } from "../../../../sidecar/panel/page/panel.js";
import { RequestError } from "../../../../sidecar/panel/page/rpc.js";
import { openRules } from "../../../../sidecar/panel/page/rules.js";

const USAGE = { used: 100, window: 1000, limit: 700, pct: 10, source: "estimate", asOfNode: null, engineView: {} };
const SNAPSHOT = { sid: "s1", cwd: "/p", roots: [], title: "A talk", model: "m", engine: "e", phase: "idle", head: null, messages: 2, seq: 5, createdAt: 0, updatedAt: 0, queue: [], archived: false, ephemeral: false, plan: [] };
const OPTIONS = [{ id: "model", name: "Model", category: "model", currentValue: "m", type: "select", options: [{ value: "m", name: "M" }, { value: "n", name: "N" }] }];
const QUESTION = {
  sid: "s1", turnId: "t", permissionId: "p1", title: "Edit a.py", expiresAt: 0, description: "It changes a file.",
  subject: { type: "path", toolCallId: "c", tool: "edit", detail: "/p/a.py", diffs: [{ path: "/p/a.py", oldText: "a\n", newText: "b\u202e\n" }] },
  options: [{ optionId: "once", name: "Allow", kind: "allow_once" }, { optionId: "no", name: "Reject", kind: "reject_once" }],
};

/** @type {{ panel: Panel, home: any, asked: [string, any][], root: HTMLElement }} */
let stage;

beforeEach(() => {
  document.body.replaceChildren();
  const root = document.body.appendChild(document.createElement("div"));
  /** @type {[string, any][]} */
  const asked = [];
  const answers = /** @type {Record<string, any>} */ ({
    "sidecar/session/list": { sessions: [{ sid: "s1", cwd: "/p", title: "A talk", updatedAt: 1, phase: "idle", messages: 2, tokens: 10, archived: false }] },
    "sidecar/session/load": { snapshot: SNAPSHOT, configOptions: OPTIONS, usage: USAGE, integrity: { ok: true, repaired: [], missing: [] }, seq: 5 },
    "sidecar/session/new": { sid: "s2", snapshot: { ...SNAPSHOT, sid: "s2", title: "" }, configOptions: OPTIONS, usage: USAGE, seq: 0 },
    "sidecar/session/tree": { nodes: [], head: null, leaves: [] },
    "sidecar/context/usage": USAGE,
    "sidecar/complete": { items: [{ kind: "command", label: "/compact", insertText: "/compact ", start: 0, end: 2, detail: "Condense" }], isIncomplete: false },
  });
  const home = {
    kind: "browser", answer: vi.fn(), recall: () => ({}), keep: vi.fn(), follow: vi.fn(),
    request: async (/** @type {string} */ method, /** @type {any} */ params) => (asked.push([method, params]), answers[method] ?? {}),
  };
  const panel = new Panel(root, /** @type {any} */ (home));
  stage = { panel, home, asked, root };
});

// The panel asks for its gauge a moment after a conversation is shown, and needs the document until then.
afterAll(() => vi.waitFor(() => expect(asked("sidecar/context/usage")).not.toEqual([])));

const connect = (session = "") => stage.panel.connected({ folder: "/p", session, methods: [] });
const asked = (/** @type {string} */ method) => stage.asked.filter(([name]) => name === method).map(([, params]) => params);
const type = (/** @type {string} */ text) => {
  stage.panel.composer.input.value = text;
  stage.panel.composer.input.setSelectionRange(text.length, text.length);
  stage.panel.composer.input.dispatchEvent(new Event("input"));
};
const press = (/** @type {string} */ key, /** @type {object} */ more = {}) => stage.panel.composer.input.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, ...more }));

test("the first prompt begins a conversation in the folder", async () => {
  await connect();
  type("hello");
  press("Enter");
  await vi.waitFor(() => expect(asked("sidecar/turn/start")).toEqual([{ sid: "s2", input: [{ type: "text", text: "hello" }] }]));
  expect(asked("sidecar/session/new")).toEqual([{ cwd: "/p" }]);
  expect(stage.panel.composer.text).toBe("");
});

test("a form is answered field by field, and goes when it is answered elsewhere", async () => {
  await connect("s1");
  const { home, panel, root } = stage;
  const properties = {
    q1: { title: "Which database?", type: "string", enum: ["Postgres", "SQLite"], default: "SQLite" },
    q2: { title: "Which tables?", type: "array", items: { type: "string", enum: ["users", "logs"] } },
    q3: { title: "Port\u202e", type: "integer", minimum: 1 },
    q4: { title: "Sure?", type: "boolean" },
  };
  const form = { sid: "s1", turnId: "t", elicitationId: "e1", from: "db", message: "4 questions", schema: { type: "object", properties, required: ["q1"] }, expiresAt: 0 };
  panel.receive("sidecar/elicitResolved", { elicitationId: "e0" });
  panel.askForm(form);
  const card = /** @type {HTMLFormElement} */ (root.querySelector("form.permission"));
  expect(card.textContent).toContain("The tool server db asks you");
  expect(card.textContent).toContain("‹U+202E›");
  const box = (/** @type {string} */ value) => /** @type {HTMLInputElement} */ (card.querySelector(`[value="${value}"]`));
  expect(box("SQLite").checked).toBe(true);
  box("Postgres").checked = true;
  box("users").checked = true;
  /** @type {HTMLInputElement} */ (card.querySelector("[type=number]")).value = "7013";
  card.dispatchEvent(new Event("submit", { cancelable: true }));
  expect(home.answer.mock.calls).toEqual([["e1", { action: "accept", content: { q1: "Postgres", q2: ["users"], q3: 7013, q4: false } }]]);
  expect(root.querySelector("form.permission")).toBe(null);

  panel.askForm({ ...form, elicitationId: "e2", url: "https://example.org/sign-in", schema: { type: "object", properties: {} } });
  expect(root.querySelector("form.permission code")?.textContent).toBe("https://example.org/sign-in");
  expect(root.querySelector("form.permission a")).toBe(null);
  panel.receive("sidecar/elicitResolved", { elicitationId: "e2" });
  expect(root.querySelector("form.permission")).toBe(null);
});

test("a conversation that another process has open is joined there, once", async () => {
  const { home, panel } = stage;
  const request = home.request;
  const busy = new RequestError({ message: "in use", data: { kind: "busy", details: { pid: 42 } } });
  home.join = vi.fn();
  home.request = (/** @type {string} */ method, /** @type {any} */ params) => (method === "sidecar/session/load" ? Promise.reject(busy) : request(method, params));
  await connect("s1");
  expect(home.join.mock.calls).toEqual([[42]]);
  expect(asked("sidecar/session/new")).toEqual([]);
  home.request = request;
  await connect("s1");
  expect(panel.sid).toBe("s1");
  expect(panel.banner.textContent).toContain("open in process 42");

  home.request = (/** @type {string} */ method, /** @type {any} */ params) => (method === "sidecar/session/load" ? Promise.reject(busy) : request(method, params));
  panel.disconnected("that program has ended");
  await connect("s1");
  expect(home.join).toHaveBeenCalledTimes(1);
  expect(panel.banner.textContent).toContain("in use");
});

test("a conversation that is left without a prompt is not kept", async () => {
  await connect();
  type("hel");
  await vi.waitFor(() => expect(stage.panel.sid).toBe("s2"));
  await stage.panel.open("s1");
  expect(asked("sidecar/session/delete")).toEqual([{ sid: "s2" }]);
});

test("after a lost connection the conversation goes on, and the reason is shown", async () => {
  await connect("last");
  expect(stage.panel.sid).toBe("s1");
  stage.panel.disconnected("it was ended by SIGKILL");
  expect(stage.panel.banner.textContent).toContain("it was ended by SIGKILL");
  await connect();
  expect(asked("sidecar/session/load")).toHaveLength(2);
  expect(stage.panel.banner.textContent).toContain("goes on");
});

test("a question stays until it is answered, shows the change, and hides no character", async () => {
  await connect("s1");
  stage.panel.askPermission(/** @type {any} */ (QUESTION));
  const card = stage.root.querySelector(".permission");
  expect(card?.textContent).toContain("‹U+202E›");
  expect([...(card?.querySelectorAll("button.button") ?? [])].map((button) => button.textContent)).toEqual(["Allowy", "Rejectn"]);
  /** @type {HTMLButtonElement} */ (card?.querySelector("button.danger")).click();
  expect(stage.home.answer.mock.calls).toEqual([["p1", { outcome: "selected", optionId: "no", hunks: [] }]]);
  expect(stage.root.querySelector(".permission")).toBeNull();
});

test("a conversation that waits for its user says so, also in the list", async () => {
  await connect("s1");
  const [line] = (await stage.home.request("sidecar/session/list", {})).sessions;
  stage.panel.sessions.toggle(true);
  const waiting = { ...line, state: "waiting", waitingFor: "permission", text: "Run make", since: 2 };
  Object.assign(line, waiting);
  stage.panel.transcript.phase = "dispatching";
  stage.panel.receive("sidecar/sessions/changed", { sessions: [waiting], removed: [] });
  expect(stage.panel.status.textContent).toBe("Waiting for you: Run make");
  await vi.waitFor(() => expect(stage.root.querySelector(".session .badge")?.textContent).toBe("waiting for you"));
  stage.panel.receive("sidecar/sessions/changed", { sessions: [{ ...line, state: "working" }], removed: [] });
  expect(stage.panel.status.textContent).not.toContain("you");
});

test("a key that was typed as the question came answers nothing", async () => {
  await connect("s1");
  stage.panel.askPermission(/** @type {any} */ (QUESTION));
  stage.root.querySelector(".permission")?.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true }));
  expect(stage.home.answer).not.toHaveBeenCalled();
});

/** @param {object} subject @param {object} more */
const questionAbout = (subject, more = {}) => /** @type {any} */ ({ ...QUESTION, ...more, subject: { type: "command", toolCallId: "c", tool: "bash", detail: "", diffs: [], ...subject } });

test("a command stands in its box whole, though its title tells it", async () => {
  await connect("s1");
  stage.panel.askPermission(questionAbout({ detail: `make x${" ".repeat(3000)}; y${"\n".repeat(200)}z\u3164 a\u200db` }, { title: "Run make x" }));
  expect(stage.root.querySelector(".permission .detail")?.textContent).toBe("make x‹3,000 blanks›; y\n‹199 empty lines›\nz‹U+3164› a‹U+200D›b");
  expect(stage.root.querySelector(".permission .asks")?.textContent).toBe("Sidecar asks for your permission");
});

test("paths show what cannot be seen in them", async () => {
  await connect("s1");
  stage.panel.askPermission(questionAbout({ type: "path", tool: "edit", detail: "/p/a\u00ad.py", diffs: [{ path: "/p/a\u00ad.py", oldText: "a\n", newText: "b\n" }] }, { title: "Edit a\u00ad.py" }));
  expect(stage.root.querySelector(".permission .path")?.textContent).toBe("a‹U+00AD›.py");
  expect(stage.root.querySelector(".permission strong")?.textContent).toBe("Edit a‹U+00AD›.py");
});

test("a change that is not shown whole cannot be allowed before it is", async () => {
  await connect("s1");
  stage.panel.askPermission(questionAbout({ diffs: [{ path: "/p/a.py", oldText: null, newText: "x\n".repeat(2501) }] }));
  const card = /** @type {HTMLElement} */ (stage.root.querySelector(".permission"));
  const [allow, reject] = /** @type {HTMLButtonElement[]} */ ([...card.querySelectorAll(".buttons button")]);
  expect([allow?.disabled, reject?.disabled]).toEqual([true, false]);
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 5000);
  card.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true }));
  now.mockRestore();
  const rest = /** @type {HTMLButtonElement} */ (card.querySelector(".unshown"));
  expect(document.activeElement).toBe(rest);
  expect(rest.textContent).toBe("Show the other 501 lines");
  rest.click();
  expect(card.querySelectorAll(".diff-line")).toHaveLength(2501);
  expect(allow?.disabled).toBe(false);
  allow?.click();
  expect(stage.home.answer).toHaveBeenCalledOnce();
});

test("the keyboard goes on to the next question, and then to the box", async () => {
  await connect("s1");
  stage.panel.askPermission(/** @type {any} */ (QUESTION));
  stage.panel.askPermission(/** @type {any} */ ({ ...QUESTION, permissionId: "p2" }));
  stage.panel.permissions.focus();
  /** @type {HTMLButtonElement} */ (stage.root.querySelector(".permission button.primary")).click();
  expect(document.activeElement).toBe(stage.root.querySelector(".permission"));
  /** @type {HTMLButtonElement} */ (stage.root.querySelector(".permission button.primary")).click();
  expect(document.activeElement).toBe(stage.panel.composer.input);
});

test("a question that was answered elsewhere goes", async () => {
  await connect("s1");
  stage.panel.askPermission(/** @type {any} */ (QUESTION));
  stage.panel.receive("sidecar/permission/resolved", { permissionId: "p1" });
  expect(stage.root.querySelector(".permission")).toBeNull();
});

test("all rules that were proposed are dismissed at once, and those set by hand stay", async () => {
  await connect("s1");
  const rule = (/** @type {string} */ id, /** @type {string} */ source) => ({ id, text: id, source, since: 0, proposed: source !== "user", holds: true, conflicts: [] });
  let rules = [rule("mine", "user"), rule("old", "found"), rule("told", "summary"), rule("third", "summary")];
  const request = stage.home.request;
  stage.home.request = async (/** @type {string} */ method, /** @type {any} */ params) => {
    if (method === "sidecar/rule/list") return { rules };
    if (method === "sidecar/rule/keep") rules = rules.map((each) => (each.id === params.rule ? { ...each, proposed: false } : each));
    if (method === "sidecar/rule/dismiss") rules = rules.filter(({ proposed }) => !proposed);
    return request(method, params);
  };
  await openRules(stage.home, "s1", (error) => { throw error; });
  const pressed = (/** @type {string} */ words) => /** @type {HTMLButtonElement} */ ([...document.querySelectorAll("dialog button")].find(({ textContent }) => textContent === words)).click();
  pressed("Keep");
  await vi.waitFor(() => expect([...document.querySelectorAll("dialog .fact button")].map((each) => each.textContent)).toEqual(["Take back", "Take back", "Keep", "Dismiss", "Keep", "Dismiss"]));
  pressed("Dismiss all 2 proposed rules");
  await vi.waitFor(() => expect([...document.querySelectorAll("dialog .fact-text")].map((each) => each.textContent)).toEqual(["mine", "old"]));
});

test("while it works Enter queues, Ctrl-Enter steers, and Escape stops", async () => {
  await connect("s1");
  stage.panel.receive("sidecar/event", { sid: "s1", seq: 6, at: 1, kind: "phase", data: { phase: "streaming" }, turnId: "t" });
  await vi.waitFor(() => expect(stage.panel.composer.stopButton.hidden).toBe(false));
  type("later");
  press("Enter");
  type("now");
  press("Enter", { ctrlKey: true });
  press("Escape");
  await vi.waitFor(() => expect(asked("sidecar/turn/interrupt")).toHaveLength(1));
  await vi.waitFor(() => expect(asked("sidecar/turn/start")).toEqual([{ sid: "s1", input: [{ type: "text", text: "later" }] }]));
  await vi.waitFor(() => expect(asked("sidecar/turn/steer")).toEqual([{ sid: "s1", input: [{ type: "text", text: "now" }] }]));
});

test("Shift-Enter makes a line, and so does a backslash at the end", async () => {
  await connect("s1");
  type("one");
  press("Enter", { shiftKey: true });
  type("one\\");
  press("Enter");
  expect(asked("sidecar/turn/start")).toEqual([]);
  expect(stage.panel.composer.text).toBe("one\n");
});

test("a completion is taken with Tab", async () => {
  await connect("s1");
  stage.panel.composer.input.focus();
  type("/c");
  await vi.waitFor(() => expect(stage.panel.composer.list.hidden).toBe(false));
  expect(asked("sidecar/complete")).toEqual([{ sid: "s1", text: "/c", position: 2 }]);
  press("Tab");
  expect(stage.panel.composer.text).toBe("/compact ");
});

test("an offer for an earlier text replaces nothing that was typed since", async () => {
  await connect("s1");
  stage.panel.composer.input.focus();
  type("/c");
  await vi.waitFor(() => expect(stage.panel.composer.list.hidden).toBe(false));
  type("/compact now");
  press("Tab");
  expect(stage.panel.composer.text).toBe("/compact now");
  press("Enter");
  expect(stage.panel.composer.text).toBe("");
});

test("the events of another conversation change nothing", async () => {
  await connect("s1");
  stage.panel.receive("sidecar/event", { sid: "other", seq: 6, at: 1, kind: "notice", data: { severity: "info", title: "x", description: "" } });
  expect(stage.panel.transcript.rows).toEqual([]);
});

test("every button has a name that can be read aloud", async () => {
  await connect("s1");
  stage.panel.askPermission(/** @type {any} */ (QUESTION));
  stage.panel.sessions.toggle(true);
  await vi.waitFor(() => expect(stage.root.querySelector(".session")).not.toBeNull());
  const nameless = [...stage.root.querySelectorAll("button, select, textarea, input")].filter((each) => !each.getAttribute("aria-label") && !each.textContent?.trim());
  expect(nameless.map((each) => each.outerHTML)).toEqual([]);
});

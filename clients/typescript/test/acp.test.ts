/** The protocol's own TypeScript SDK, unchanged, drives the daemon: a brief, sub-agents, questions, plans, budgets. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { after, before, beforeEach, test } from "node:test";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk/unstable";

import { newFolder } from "./folders.js";

const COMMAND = JSON.parse(process.env["SIDECAR_COMMAND"] ?? '["sidecar"]') as string[];
const call = (name: string, input: object): object[] => [{ toolCall: { name, input } }];
const WHICH = { question: "Which tables?", choices: ["users", "logs"], multiple: true };
const PLAN = { entries: [{ content: "look", status: "completed" }, { content: "write", status: "pending" }] };
const MODELS = {
  "asks-1": { scripted: [call("ask", { questions: [WHICH] }), [{ text: "asked" }]] },
  "delegates-1": {
    scripted: [
      call("task", { title: "Look", prompt: "Look around." }),
      call("ask", { questions: [WHICH] }),
      [{ text: "they say logs" }],
      [{ text: "delegated" }],
    ],
  },
  "plans-1": { scripted: [call("todo", PLAN), [{ text: "planned" }]] },
  "says-1": { scripted: [[{ text: "said" }], [{ text: "said again" }]], contextWindow: 64_000 },
};

let child: ChildProcess;
let connection: acp.ClientConnection;
let updates: acp.SessionNotification[] = [];
let asked: acp.CreateElicitationRequest[] = [];

before(async () => {
  const [program, ...rest] = [...COMMAND.slice(0, COMMAND.lastIndexOf("serve") >>> 0), "acp"];
  child = spawn(String(program), rest, { env: { ...process.env, INDUSAGI_HOME: newFolder() }, stdio: ["pipe", "pipe", "inherit"] });
  const { stdin, stdout } = child;
  assert.ok(stdin && stdout);
  const stream = acp.ndJsonStream(Writable.toWeb(stdin), Readable.toWeb(stdout) as ReadableStream<Uint8Array>);
  connection = acp
    .client({ name: "test" })
    .onNotification(acp.methods.client.session.update, ({ params }) => void updates.push(params))
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => ({
      outcome: { outcome: "selected", optionId: params.options.find(({ kind }) => kind === "allow_once")?.optionId ?? "" },
    }))
    .onRequest(acp.methods.client.elicitation.create, ({ params }) => {
      asked.push(params);
      return { action: "accept", content: { q1: ["logs"] } };
    })
    .connect(stream);
  const answer = await connection.agent.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { elicitation: { form: {} }, plan: {}, subagents: {} },
    _meta: { sidecar: { models: MODELS } },
  });
  assert.equal(answer.protocolVersion, acp.PROTOCOL_VERSION);
  assert.deepEqual(answer.agentCapabilities?.sessionCapabilities?.systemPrompt, {});
});
after(async () => {
  child.stdin?.end();
  const [code] = (await once(child, "exit")) as [number];
  assert.equal(code, 0);
});
beforeEach(() => {
  updates = [];
  asked = [];
});

/** Start a session with a scripted model. */
async function start(model: string, more: Partial<acp.NewSessionRequest> = {}): Promise<string> {
  const params = { cwd: newFolder(), mcpServers: [], _meta: { sidecar: { model } }, ...more };
  return (await connection.agent.request(acp.methods.agent.session.new, params)).sessionId;
}

async function prompt(sessionId: string, text: string): Promise<string> {
  const answer = await connection.agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  return answer.stopReason;
}

/** The updates of a kind, of one session or of all. */
function updatesOf<K extends acp.SessionUpdate["sessionUpdate"]>(kind: K, sid?: string): Extract<acp.SessionUpdate, { sessionUpdate: K }>[] {
  const found = updates.filter(({ sessionId, update }) => update.sessionUpdate === kind && (sid === undefined || sessionId === sid));
  return found.map(({ update }) => update as Extract<acp.SessionUpdate, { sessionUpdate: K }>);
}

function text(sid: string): string {
  return updatesOf("agent_message_chunk", sid).map(({ content }) => (content.type === "text" ? content.text : "")).join("");
}

test("a question is a form", async () => {
  const sid = await start("asks-1");
  assert.equal(await prompt(sid, "ask me"), "end_turn");
  assert.equal(text(sid), "asked");
  const [form] = asked;
  assert.ok(form !== undefined && form.mode === "form" && "requestedSchema" in form);
  assert.equal(form.message, "Which tables?");
  const [field] = Object.values((form as { requestedSchema: acp.ElicitationSchema }).requestedSchema.properties ?? {});
  assert.equal(field?.type, "array");
  assert.match(JSON.stringify(updatesOf("tool_call_update", sid)), /Which tables\? logs/);
});

test("a sub-agent is a session of its own, and its question comes once", async () => {
  const sid = await start("delegates-1");
  assert.equal(await prompt(sid, "delegate it"), "end_turn");
  const seen = updatesOf("subagent_update", sid);
  const ids = new Set(seen.map(({ sessionId }) => sessionId));
  assert.equal(ids.size, 1);
  const [agent] = ids;
  assert.deepEqual(seen.map(({ state }) => state?.state), ["running", "idle"]);
  assert.equal(seen[0]?.title, "Look");
  assert.equal(asked.length, 1);
  assert.equal(text(String(agent)), "they say logs");
  assert.equal(text(sid), "delegated");
});

test("the client adds to the system prompt, and cannot replace it", async () => {
  const content: acp.ContentBlock[] = [{ type: "text", text: "Speak like a pirate." }];
  const sid = await start("says-1", { systemPrompt: { mode: "append", content } });
  await prompt(sid, "/context");
  assert.match(text(sid), /tokens in the system prompt: Speak like a pirate\./);
  await assert.rejects(start("says-1", { systemPrompt: { mode: "override", content } }), /cannot be replaced/);
});

test("a plan is updated by its id", async () => {
  const sid = await start("plans-1");
  await prompt(sid, "plan it");
  const [update] = updatesOf("plan_update", sid);
  assert.match(JSON.stringify(update), /"look".*"completed".*"write"/);
});

test("a budget is an option, and ends a turn before the call that would break it", async () => {
  const sid = await start("says-1");
  const params: acp.SetSessionConfigOptionRequest = { sessionId: sid, configId: "budget", value: "1k per prompt" };
  const { configOptions } = await connection.agent.request(acp.methods.agent.session.setConfigOption, params);
  const option = configOptions.find(({ id }) => id === "budget");
  assert.ok(option?.type === "select" && option.currentValue === params.value);
  const reason = await prompt(sid, "say it");
  assert.notEqual(text(sid), "said");
  assert.equal(reason, "max_turn_requests");
});

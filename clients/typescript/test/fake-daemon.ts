/**
 * A program that stands in for the daemon: it shakes hands, and misbehaves as its first argument says when it is
 * asked anything. It ends with its standard input, but for `deaf`.
 */

import { spawn } from "node:child_process";

type Message = { id?: number; method?: string; result?: unknown; error?: unknown };

const how = process.argv[2];
const READY = { capabilities: { experimental: { sidecar: { protocol: how === "older" ? 0 : 1 } } } };

function frame(message: object): string {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  return `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function write(...messages: object[]): void {
  process.stdout.write(messages.map(frame).join(""));
}

function event(seq: number): object {
  return { method: "sidecar/event", params: { sid: "s", seq, at: 0, kind: "phase", data: { phase: "idle" } } };
}

const ON_REQUEST: Record<string, (id: number) => void> = {
  /** Die in the middle of an answer. */
  crash(id) {
    process.stderr.write(`early words\n${"x".repeat(10_000)}\nlast words\n`);
    process.stdout.write(frame({ id, result: "half" }).slice(0, -4));
    process.exitCode = 3;
    process.stdin.destroy();
  },
  garbage: () => void process.stdout.write("Traceback (most recent call last):\n\nno protocol\r\n\r\n"),
  killMe: () => void process.kill(process.pid, "SIGTERM"),
  /** Die, and leave a child that holds the pipes, and dies of writing once the client has let go of them. */
  leaveChild() {
    const chatter = "setInterval(() => process.stderr.write('.'), 50)";
    spawn(process.execPath, ["-e", chatter], { stdio: "inherit" }).on("spawn", () => process.exit(4));
  },
  /** Say a lot, and die before anybody can have read it. */
  talkAndDie(id) {
    write(...Array.from({ length: 500 }, (_, at) => event(at + 1)), { id, result: "done" });
    process.stdin.destroy();
  },
  /** Ask for a permission; the answer to it is the answer to the request. */
  ask(id) {
    answered = (message) => write({ id, result: message.error ?? message.result });
    const options = [
      { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" },
    ];
    write({ id: 7, method: "sidecar/permission/request", params: { permissionId: "p", options } });
  },
  /** Show a form; the answer to it is the answer to the request. */
  elicit(id) {
    answered = (message) => write({ id, result: message.error ?? message.result });
    const properties = { q1: { type: "string", enum: ["Postgres", "SQLite"] } };
    const schema = { type: "object", properties, required: ["q1"] };
    write({ id: 8, method: "sidecar/elicit", params: { elicitationId: "e", from: "agent", message: "Which database?", schema } });
  },
  /** Ask, and take the question back. */
  askNoMore(id) {
    ON_REQUEST["ask"]!(id);
    write({ method: "$/cancelRequest", params: { id: 7 } });
  },
  plain: (id) => write({ id, result: { cwd: process.cwd(), extra: process.env["EXTRA"] } }),
  refuse: (id) => write({ id, error: { code: -32803, message: "no", data: { kind: "busy", retryable: true } } }),
};

let answered: (message: Message) => void = () => undefined;

function take(message: Message): void {
  const { id, method } = message;
  if (method === "exit") process.exit(0);
  else if (id === undefined || how === "silent") return;
  else if (method === undefined) answered(message);
  else if (method === "initialize") write({ id, result: READY });
  else if (method === "shutdown") write({ id, result: null });
  else ON_REQUEST[how ?? "plain"]!(id);
  if (how === "deaf") process.stdin.pause();
}

let buffer = Buffer.alloc(0);
process.stdin.on("data", (data: Buffer) => {
  buffer = Buffer.concat([buffer, data]);
  for (;;) {
    const head = /^Content-Length: (\d+)\r\n\r\n/.exec(buffer.toString("latin1"));
    const end = head === null ? Infinity : head[0].length + Number(head[1]);
    if (buffer.length < end) return;
    take(JSON.parse(buffer.subarray(head![0].length, end).toString()) as Message);
    buffer = buffer.subarray(end);
  }
});
if (how === "deaf") {
  process.on("SIGTERM", () => undefined);
  setInterval(() => undefined, 1000);
}

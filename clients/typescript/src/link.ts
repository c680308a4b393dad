/**
 * Bytes to and from the daemon: a process of our own, or a socket of one that runs already.
 *
 * A link never looks into the bytes. It ends only the process it started, by that process's own handle, and
 * closing it takes a bounded time whatever the daemon does.
 */

import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

import { ConnectionLost } from "./errors.js";

const TAIL_CHARS = 8 * 1024;

/** How long the exit code and the rest of stderr may take to follow the first sign of the end. */
const LAST_WORDS_MS = 500;

/** How long the system may take to end a killed process. */
const REAP_MS = 1000;

/** One open connection. */
export interface Link {
  readonly input: Readable;
  readonly output: Writable;
  /** Resolves when nothing more will come, soon after the first sign of it; never rejects. */
  readonly ended: Promise<ConnectionLost>;
  /** Whether there was a sign of the end. */
  readonly isEnding: boolean;
  /** How the process ended; null while it runs, after a signal, and for a process that is not ours. */
  readonly exitCode: number | null;
  /** Give the connection up, for `reason`. */
  fail(reason: string): void;
  /** Flush, close, and see a process of ours out: end of input, SIGTERM, SIGKILL, `graceMs` apart. */
  close(graceMs: number): Promise<void>;
}

/** What both kinds of link know of their end: its first sign, and then the reason, told once. */
class End {
  isNear = false;
  readonly told: Promise<ConnectionLost>;
  tell!: (error: ConnectionLost) => void;

  constructor() {
    this.told = new Promise((resolve) => (this.tell = resolve));
  }
}

/** The standard input and output of a process this client started. */
export class ProcessLink implements Link {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #exited: Promise<unknown>;
  readonly #end = new End();
  #tail = "";

  /** In a session of its own: an interrupt from the terminal is for the program, which then closes in order. */
  constructor(
    command: readonly string[],
    cwd: string,
    env: Readonly<Record<string, string>>,
    log: (line: string) => void,
  ) {
    const [program = "", ...args] = command;
    const detached = process.platform !== "win32";
    const child = spawn(program, args, { cwd, env: { ...process.env, ...env }, detached, windowsHide: true });
    this.#process = child;
    this.#exited = new Promise((resolve) => child.on("exit", resolve).on("close", resolve));
    createInterface({ input: child.stderr }).on("line", (line) => {
      this.#tail = `${this.#tail}${line}\n`.slice(-TAIL_CHARS);
      log(line);
    });
    child.on("error", (error) => this.fail(`cannot start "${program}" in "${cwd}": ${error.message}`));
    child.on("exit", () => this.#endSoon());
    child.on("close", () => this.fail(this.#howItEnded()));
    child.stdout.on("close", () => this.#endSoon());
    child.stdin.on("error", () => this.#endSoon());
  }

  get input(): Readable {
    return this.#process.stdout;
  }

  get output(): Writable {
    return this.#process.stdin;
  }

  get ended(): Promise<ConnectionLost> {
    return this.#end.told;
  }

  get isEnding(): boolean {
    return this.#end.isNear;
  }

  get exitCode(): number | null {
    return this.#process.exitCode;
  }

  fail(reason: string): void {
    this.#end.isNear = true;
    this.#end.tell(new ConnectionLost(reason, this.exitCode, this.#tail.trim()));
  }

  async close(graceMs: number): Promise<void> {
    this.#process.stdin.end();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      if (await within(graceMs, this.#exited)) break;
      this.#process.kill(signal);
    }
    await within(REAP_MS, this.#exited);
    const { stdin, stdout, stderr } = this.#process;
    for (const stream of [stdin, stdout, stderr]) stream.destroy(); // a child of its may hold them open still
  }

  #endSoon(): void {
    if (this.#end.isNear) return;
    this.#end.isNear = true;
    const timer = setTimeout(() => this.fail(this.#howItEnded()), LAST_WORDS_MS);
    void this.ended.then(() => clearTimeout(timer));
  }

  #howItEnded(): string {
    const { exitCode, signalCode } = this.#process;
    if (signalCode !== null) return `the daemon was ended by ${signalCode}`;
    if (exitCode !== null) return `the daemon ended with exit code ${exitCode}`;
    return "the daemon closed its input or output and still runs";
  }
}

/** A unix socket or named pipe of a daemon that somebody else started, and that stays when we leave. */
export class SocketLink implements Link {
  readonly exitCode = null;
  readonly #end = new End();

  private constructor(readonly socket: Socket) {
    socket.on("end", () => (this.#end.isNear = true));
    socket.on("error", (error) => this.fail(`the connection broke: ${error.message}`));
    socket.on("close", () => this.fail("the connection is closed"));
  }

  /** Connect to the socket at `path`. Rejects with ConnectionLost when nobody answers there. */
  static async open(path: string): Promise<SocketLink> {
    const socket = createConnection(path);
    try {
      await once(socket, "connect");
    } catch (error) {
      throw new ConnectionLost(`no daemon answers at "${path}": ${(error as Error).message}`);
    }
    return new SocketLink(socket);
  }

  get input(): Readable {
    return this.socket;
  }

  get output(): Writable {
    return this.socket;
  }

  get ended(): Promise<ConnectionLost> {
    return this.#end.told;
  }

  get isEnding(): boolean {
    return this.#end.isNear;
  }

  fail(reason: string): void {
    this.#end.isNear = true;
    this.#end.tell(new ConnectionLost(reason));
  }

  async close(graceMs: number): Promise<void> {
    this.socket.destroySoon();
    await within(graceMs, this.ended);
    this.socket.destroy();
  }
}

/** Whether `work` is done in `ms`; rejects when it does. What comes too late is left to itself. */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, ms, false)));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

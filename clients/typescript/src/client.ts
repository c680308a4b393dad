/**
 * A connection to the daemon: start one or attach to one, ask, listen, leave.
 *
 * It adds nothing of its own to what the daemon does, and ends no process but the one it started.
 */

import { resolve } from "node:path";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import {
  CancellationToken,
  CancellationTokenSource,
  createMessageConnection,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
  type Disposable,
  type MessageConnection,
} from "vscode-jsonrpc/node";

import { Documents } from "./documents.js";
import { ConnectionLost, SidecarRequestError } from "./errors.js";
import { EventLog, EventStream, gapEvent, type SidecarEvent } from "./events.js";
import { introduction, serverOf, type ClientOptions, type Handler, type ServerInfo } from "./handshake.js";
import { ProcessLink, SocketLink, within, type Link } from "./link.js";
import { reject } from "./permissions.js";
import type {
  ClientRequests,
  EditorContextParams,
  EditorFile,
  GapNotification,
  Methods,
  Notifications,
} from "./protocol.js";
import { Session } from "./session.js";

const START_MS = 30_000;
const GRACE_MS = 3_000;

/** The codes of errors that vscode-jsonrpc makes itself: the daemon did not answer. */
const NOT_ANSWERED = { first: -32099, last: -32096 };

export type MethodName = keyof Methods;
export type Params<M extends MethodName> = Methods[M]["params"];
export type Result<M extends MethodName> = Methods[M]["result"];
/** A report of the editor; `active: null` says that there is no file. */
export type EditorReport = Omit<EditorContextParams, "active"> & { readonly active?: EditorFile | null };
type OtherNotification = Exclude<keyof Notifications, "sidecar/event" | "sidecar/gap">;

export interface SpawnOptions extends ClientOptions {
  /** The program and its arguments. */
  readonly command?: readonly string[];
  /** The folder the process starts in, which is the workspace too. */
  readonly cwd?: string;
  /** Variables added to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

export class SidecarClient {
  /** The connection itself, for whatever has no method here. */
  readonly connection: MessageConnection;
  readonly documents = new Documents((method, params) => this.#notify(method, params));
  /** Resolves when the daemon is gone, or this client has left; never rejects. */
  readonly ended: Promise<ConnectionLost>;
  readonly #link: Link;
  readonly #folder: string | null;
  readonly #log: (line: string) => void;
  readonly #logs = new Map<string, EventLog>();
  #server: ServerInfo | undefined;
  #leaving: Promise<void> | undefined;
  #over: ConnectionLost | undefined;
  #handled = 0;

  private constructor(link: Link, folder: string | null, options: ClientOptions) {
    this.#link = link;
    this.#folder = folder;
    this.#log = options.log ?? console.error;
    this.connection = this.#connect();
    this.#listen(options);
    this.ended = link.ended.then((error) => this.#finish(error));
  }

  /** Start a daemon of its own, which ends when this client leaves. */
  static async spawn(options: SpawnOptions = {}): Promise<SidecarClient> {
    const folder = resolve(options.cwd ?? ".");
    const { command = ["sidecar"], env = {}, log = console.error } = options;
    return SidecarClient.#start(new ProcessLink(command, folder, env, log), folder, options);
  }

  /** Attach to the daemon at the unix socket or named pipe `path`, and leave it running. */
  static async connect(path: string, options: ClientOptions = {}): Promise<SidecarClient> {
    return SidecarClient.#start(await SocketLink.open(path), null, options);
  }

  static async #start(link: Link, folder: string | null, options: ClientOptions): Promise<SidecarClient> {
    const client = new SidecarClient(link, folder, options);
    const startMs = options.startMs ?? START_MS;
    try {
      if (await within(startMs, client.#shakeHands(options))) return client;
      throw new ConnectionLost(`no answer to initialize in ${startMs} ms`);
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  /** What the daemon said of itself. */
  get server(): ServerInfo {
    return this.#server!;
  }

  /** How the daemon ended; null while it runs, after a signal, and when it is not ours. */
  get exitCode(): number | null {
    return this.#link.exitCode;
  }

  /**
   * Ask the daemon. Rejects with SidecarRequestError or ConnectionLost. Aborting `signal` cancels the request at
   * the daemon, which then refuses it as `cancelled`.
   */
  async request<M extends MethodName>(method: M, params: Params<M>, signal?: AbortSignal): Promise<Result<M>> {
    signal?.throwIfAborted();
    const source = new CancellationTokenSource();
    const cancel = () => source.cancel();
    signal?.addEventListener("abort", cancel);
    try {
      return await this.#ask(method, params, source.token);
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  /**
   * Report the state of the editor. An absent member stays as it was reported before, and `active: null` says that
   * there is no file. Positions are in UTF-16 units.
   */
  async reportEditor(context: EditorReport): Promise<void> {
    await this.#notify("sidecar/editor/context", { positionEncoding: "utf-16", ...context });
  }

  /** Complete the prompt `text` at `position`, in UTF-16 units: commands, their arguments, and `@` mentions. */
  async complete(params: Params<"sidecar/complete">, signal?: AbortSignal): Promise<Result<"sidecar/complete">> {
    return this.request("sidecar/complete", params, signal);
  }

  /** Start a session in `cwd`, by default the folder the daemon was started in. */
  async startSession(params: Partial<Params<"sidecar/session/new">> = {}): Promise<Session> {
    const cwd = resolve(this.#folder ?? ".", params.cwd ?? ".");
    const { sid, seq } = await this.request("sidecar/session/new", { ...params, cwd });
    return new Session(this, sid, seq);
  }

  /** Load a stored session. */
  async loadSession(sid: string): Promise<Session> {
    const { seq } = await this.request("sidecar/session/load", { sid });
    return new Session(this, sid, seq);
  }

  /**
   * The events of `sid`: those after `afterSeq` that came or will; by default from now on. Where events are lost,
   * here or because this client read too slowly for the daemon, there is one of kind `gap`. It ends when this
   * client or the session is closed, and throws ConnectionLost when the daemon is gone. The past that a load sends
   * again has `seq` 0 and goes to streams without `afterSeq`.
   */
  events(sid: string, afterSeq?: number): EventStream {
    return new EventStream(this.#logOf(sid), afterSeq);
  }

  /** Call `handler` for what the daemon says besides events; there is one handler a method. */
  onNotification<M extends OtherNotification>(method: M, handler: (params: Notifications[M]) => void): Disposable {
    return this.connection.onNotification(method, handler);
  }

  /** Let go of the events of `sid`; its streams come to their end. */
  forget(sid: string): void {
    this.#logs.get(sid)?.close(null);
    this.#logs.delete(sid);
  }

  /** Leave. Ends the daemon if it is ours: politely, then not; each step takes `graceMs` at most. */
  close(graceMs = GRACE_MS): Promise<void> {
    return (this.#leaving ??= this.#leave(graceMs));
  }

  #connect(): MessageConnection {
    const reader = new StreamMessageReader(this.#link.input);
    reader.partialMessageTimeout = 0; // its timer would outlive the connection
    reader.onError((error) => this.#link.fail(`the daemon wrote what is not the protocol: ${error.message}`));
    const logger = { error: this.#log, warn: this.#log, info: () => undefined, log: () => undefined };
    return createMessageConnection(reader, new StreamMessageWriter(this.#link.output), logger, {
      messageStrategy: {
        handleMessage: (message, next) => {
          this.#handled += 1;
          return next(message);
        },
      },
    });
  }

  #listen({ permission = reject, elicit, applyEdit, queryEditor }: ClientOptions): void {
    this.#handle("sidecar/permission/request", permission);
    if (elicit !== undefined) this.#handle("sidecar/elicit", elicit);
    if (applyEdit !== undefined) this.#handle("sidecar/edit/apply", applyEdit);
    if (queryEditor !== undefined) this.#handle("sidecar/editor/query", queryEditor);
    this.connection.onNotification("sidecar/event", (event: SidecarEvent) => {
      this.#logOf(event.sid).push(event);
    });
    this.connection.onNotification("sidecar/gap", ({ sid, ...gap }: GapNotification) => {
      this.#logOf(sid).push(gapEvent(sid, gap));
    });
    this.connection.listen();
  }

  async #shakeHands(options: ClientOptions): Promise<void> {
    const answer = await this.#ask("initialize", introduction(this.#folder, options));
    await this.#notify("initialized", {});
    this.#server = serverOf(answer);
  }

  async #ask(method: string, params: object, token = CancellationToken.None): Promise<any> {
    try {
      return await this.connection.sendRequest(method, params, token);
    } catch (error) {
      throw await this.#explain(error);
    }
  }

  async #notify(method: string, params: object): Promise<void> {
    try {
      await this.connection.sendNotification(method, params);
    } catch (error) {
      throw await this.#explain(error);
    }
  }

  async #explain(error: unknown): Promise<unknown> {
    if (error instanceof ResponseError && !(error.code >= NOT_ANSWERED.first && error.code <= NOT_ANSWERED.last)) {
      return new SidecarRequestError(error.code, error.message, error.data ?? {});
    }
    const isOver = this.#link.isEnding || this.#leaving !== undefined;
    return isOver ? await this.ended : error;
  }

  #handle<M extends keyof ClientRequests>(method: M, handler: Handler<M>): void {
    this.connection.onRequest(method, async (params, token): Promise<unknown> => {
      const aborting = new AbortController();
      token.onCancellationRequested(() => aborting.abort());
      if (token.isCancellationRequested) aborting.abort(); // one that was cancelled before tells nobody
      try {
        return await handler(params, aborting.signal);
      } catch (error) {
        this.#log(`the handler of ${method} failed: ${String(error)}`);
        throw error;
      }
    });
  }

  #logOf(sid: string): EventLog {
    let log = this.#logs.get(sid);
    if (log === undefined) {
      log = new EventLog(sid);
      if (this.#over !== undefined) this.#closeLog(log, this.#over);
      this.#logs.set(sid, log);
    }
    return log;
  }

  #closeLog(log: EventLog, error: ConnectionLost): void {
    log.close(this.#leaving === undefined ? error : null);
  }

  async #leave(graceMs: number): Promise<void> {
    if (this.#folder !== null && this.#server !== undefined) {
      const goodbye = this.#sayGoodbye().catch(() => undefined); // then it is seen out without
      await within(graceMs, goodbye);
    }
    await this.#link.close(graceMs);
    await this.ended;
  }

  async #sayGoodbye(): Promise<void> {
    await this.connection.sendRequest("shutdown");
    await this.connection.sendNotification("exit");
  }

  async #finish(error: ConnectionLost): Promise<ConnectionLost> {
    await this.#handleTheRest();
    this.#over = error;
    this.connection.dispose();
    for (const log of this.#logs.values()) this.#closeLog(log, error);
    return error;
  }

  /** Return once what was read has been handled: each message is a few turns of the loop on its way. */
  async #handleTheRest(): Promise<void> {
    for (let before = -1; before !== this.#handled; ) {
      before = this.#handled;
      for (let turn = 0; turn < 8; turn += 1) await turnOfTheLoop();
    }
  }
}

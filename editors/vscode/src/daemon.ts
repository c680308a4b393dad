/**
 * The connection to the daemon for as long as the window is open: when the daemon dies another one is started, and
 * those who listen are told why. What was said is on the disk; the panel loads it again.
 */

import { type ChildProcess, spawn } from "node:child_process";
import * as vscode from "vscode";
import type { ClientCapabilities, FeatureState, StaticFeature } from "vscode-languageclient/node";
import { CloseAction, ErrorAction, LanguageClient, State } from "vscode-languageclient/node";
import { answerQuery, KINDS } from "./code";
import type { Elicitation, ElicitationAnswer, PermissionAnswer, PermissionRequest, SidecarEvent } from "./wire";

const MOST_STARTS = 5;
const WITHIN_MS = 3 * 60_000;
const TAIL_CHARS = 2000;
const WATCHED = ["sidecar/gap", "sidecar/permission/resolved", "sidecar/elicitResolved", "sidecar/sessions/changed", "sidecar/closing"];

export interface Listener {
  connected(methods: string[]): void;
  /** `isFinal` says that no other daemon is started. */
  lost(reason: string, isFinal: boolean): void;
  said(method: string, params: unknown): void;
  ask(request: PermissionRequest): Promise<PermissionAnswer>;
  elicit(form: Elicitation): Promise<ElicitationAnswer>;
}

export class Daemon {
  private client: LanguageClient | undefined;
  private starts: number[] = [];
  private tail = "";
  private ended = "";
  private isLeaving = false;

  constructor(private readonly listener: Listener) {}

  get isRunning(): boolean {
    return this.client?.isRunning() ?? false;
  }

  /** Start `program`. Rejects when it does not answer. */
  async start(program: string): Promise<void> {
    await this.stop();
    this.isLeaving = false;
    this.starts = [];
    const client = this.newClient(program);
    this.client = client;
    client.registerFeature(new SidecarCapability());
    client.onNotification("sidecar/event", (event: SidecarEvent) => this.listener.said("sidecar/event", event));
    for (const method of WATCHED) client.onNotification(method, (params: unknown) => this.listener.said(method, params));
    client.onRequest("sidecar/permission/request", (request: PermissionRequest) => this.listener.ask(request));
    client.onRequest("sidecar/editor/query", answerQuery);
    client.onRequest("sidecar/elicit", (form: Elicitation) => this.listener.elicit(form));
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Running) this.listener.connected(methodsOf(client));
    });
    await client.start();
  }

  async stop(): Promise<void> {
    this.isLeaving = true;
    const client = this.client;
    this.client = undefined;
    // One that never started cannot be stopped.
    if (client?.isRunning()) await client.stop().catch(() => undefined);
    await client?.dispose().catch(() => undefined);
  }

  async request<T>(method: string, params: object): Promise<T> {
    if (this.client === undefined) throw new Error("the daemon is not running; Sidecar: Restart starts it");
    return this.client.sendRequest<T>(method, params);
  }

  notify(method: string, params: object): void {
    if (this.isRunning) void this.client?.sendNotification(method, params);
  }

  private newClient(program: string): LanguageClient {
    const settings = vscode.workspace.getConfiguration("sidecar");
    const models = settings.get<object>("models");
    return new LanguageClient("sidecar", "Sidecar (daemon)", () => this.spawn(program, settings.get<string[]>("arguments", [])), {
      documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
      initializationOptions: models && Object.keys(models).length > 0 ? { sidecar: { models } } : {},
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.closed(),
      },
    });
  }

  private async spawn(program: string, args: string[]): Promise<ChildProcess> {
    this.tail = this.ended = "";
    const child = spawn(program, args, { cwd: folders()[0], stdio: "pipe", shell: process.platform === "win32" && !/\.exe$/i.test(program) });
    child.stderr.on("data", (data: Buffer) => (this.tail = (this.tail + data.toString()).slice(-TAIL_CHARS)));
    child.on("exit", (code, signal) => (this.ended = signal === null ? `it ended with exit code ${code}` : `it was ended by ${signal}`));
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    return child;
  }

  /** The pipes may close before the end of the process is known, so the reason comes a little later. */
  private closed(): { action: CloseAction; handled: boolean } {
    if (this.isLeaving) return { action: CloseAction.DoNotRestart, handled: true };
    const now = Date.now();
    this.starts = [...this.starts.filter((at) => now - at < WITHIN_MS), now];
    const isFinal = this.starts.length >= MOST_STARTS;
    setTimeout(() => this.listener.lost(this.reason(), isFinal), 100);
    return { action: isFinal ? CloseAction.DoNotRestart : CloseAction.Restart, handled: true };
  }

  private reason(): string {
    const last = this.tail.trim().split("\n").at(-1) ?? "";
    return [this.ended || "it closed the connection", last].filter(Boolean).join("; ");
  }
}

/** Says that this client knows the daemon's events and questions. */
class SidecarCapability implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    const sidecar = { protocol: [1], events: { coalesceMs: 33 }, permission: {}, elicitation: { form: {}, url: {} }, compaction: {}, editor: { query: KINDS } };
    capabilities.experimental = { ...(capabilities.experimental as object | undefined), sidecar };
  }

  initialize(): void {}

  getState(): FeatureState {
    return { kind: "static" };
  }

  clear(): void {}
}

function methodsOf(client: LanguageClient): string[] {
  const experimental = client.initializeResult?.capabilities.experimental as { sidecar?: { methods?: string[] } } | undefined;
  return experimental?.sidecar?.methods ?? [];
}

/** The folders of this window. */
export function folders(): string[] {
  return (vscode.workspace.workspaceFolders ?? []).filter(({ uri }) => uri.scheme === "file").map(({ uri }) => uri.fsPath);
}

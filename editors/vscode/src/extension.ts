import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import * as vscode from "vscode";
import { ResponseError } from "vscode-languageclient/node";
import { EditorContext } from "./context";
import { Daemon, folders } from "./daemon";
import { Gauge } from "./gauge";
import { findDaemon, installDaemon, NoDaemon, type Places } from "./install";
import { Questions } from "./questions";
import { SelectionCommands } from "./selection";
import { PanelView } from "./view";
import type { Compaction, ElicitationAnswer, PermissionAnswer, SidecarEvent, Usage, WorkLine } from "./wire";

const SESSION = "session";

let sidecar: Sidecar | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  sidecar = new Sidecar(context);
  context.subscriptions.push(...sidecar.parts, ...commands(sidecar));
  await sidecar.start().catch(tellError);
}

export async function deactivate(): Promise<void> {
  await sidecar?.daemon.stop();
}

/** One window: its daemon, its panel, and which conversation is shown there. */
class Sidecar {
  readonly gauge = new Gauge("sidecar.ui.context");
  readonly questions = new Questions("sidecar.ui.permission", (count) => (this.view.badge = count));
  readonly daemon = new Daemon({
    connected: (methods) => this.connected(methods),
    lost: (reason, isFinal) => this.lost(reason, isFinal),
    said: (method, params) => this.said(method, params),
    ask: (request) => {
      this.view.tell("panel/permission", request);
      const answer = this.questions.ask(request);
      void this.selection.show(request, answer).catch(tellError);
      return answer;
    },
    elicit: (form) => {
      this.view.tell("panel/form", form);
      return this.questions.elicit(form);
    },
  });
  readonly view: PanelView;
  readonly editor: EditorContext;
  readonly selection: SelectionCommands;
  readonly diffs = new DiffTexts();
  readonly parts: vscode.Disposable[];
  private sid = "";
  private methods: string[] | undefined;
  private chips: object[] = [];

  constructor(private readonly context: vscode.ExtensionContext) {
    this.view = new PanelView(context.extensionUri, {
      request: (method, params) => this.request(method, params),
      said: (method, params) => void this.heard(method, params).catch(tellError),
    });
    this.editor = new EditorContext(
      (params) => this.daemon.notify("sidecar/editor/context", params),
      (chips) => {
        this.chips = chips;
        this.view.tell("panel/chips", { chips });
      },
    );
    this.selection = new SelectionCommands({
      send: async (text, preserveFocus) => {
        this.editor.send();
        await this.view.act("send", { text }, { preserveFocus });
      },
      answer: (permissionId, answer) => this.questions.answer(permissionId, answer),
    });
    this.parts = [
      this.gauge,
      this.questions,
      this.editor,
      this.selection,
      vscode.window.registerWebviewViewProvider("sidecar.panel", this.view, { webviewOptions: { retainContextWhenHidden: true } }),
      vscode.workspace.registerTextDocumentContentProvider(DiffTexts.SCHEME, this.diffs),
    ];
  }

  /** Start the daemon, after it was installed where it is missing and the user wants it. */
  async start(): Promise<void> {
    const settings = vscode.workspace.getConfiguration("sidecar");
    const configured = settings.get<string>("command", "");
    try {
      await this.daemon.start(await findDaemon(configured, this.places()).catch((error: unknown) => this.install(error)));
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.view.tell("panel/disconnected", { reason: `the daemon did not start: ${why}` });
      void tellWhatToSet(configured, why);
    }
  }

  async restart(): Promise<void> {
    await this.daemon.stop();
    this.lost("it was asked to start again", false);
    await this.start();
  }

  /** The shown conversation; rejects when there is none. */
  shown(): string {
    if (this.sid === "") throw new Error("no conversation is open; Sidecar: Prompt begins one");
    return this.sid;
  }

  async compare(sid: string, compactionId: string): Promise<void> {
    const document = (name: string) => vscode.Uri.from({ scheme: "sidecar-session", path: `/${sid}/compaction/${compactionId}/${name}.md` });
    await vscode.commands.executeCommand("vscode.diff", document("before"), document("after"), "Compaction: before ↔ after");
    await vscode.window.showTextDocument(document("facts"), { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
  }

  /** Ask the daemon for the panel. */
  private async request(method: string, params: object): Promise<unknown> {
    const result = await this.daemon.request<{ turnId?: string }>(method, params);
    if (method === "sidecar/turn/start") this.selection.sent((params as { input: { text?: string }[] }).input[0]?.text, result.turnId);
    return result;
  }

  private places(): Places {
    return { extension: this.context.extensionUri.fsPath, storage: this.context.globalStorageUri.fsPath };
  }

  private async install(error: unknown): Promise<string> {
    if (!(error instanceof NoDaemon)) throw error;
    const chosen = await vscode.window.showInformationMessage("Sidecar needs its daemon. Install it into an environment of this extension?", "Install", "Open the Setting");
    if (chosen === "Open the Setting") await vscode.commands.executeCommand("workbench.action.openSettings", "sidecar.command");
    if (chosen !== "Install") throw error;
    const python = vscode.workspace.getConfiguration("sidecar").get<string>("python", "");
    const options = { location: vscode.ProgressLocation.Notification, title: "Sidecar" };
    return vscode.window.withProgress(options, (progress) => installDaemon(python, this.places(), (message) => progress.report({ message })));
  }

  private connected(methods: string[]): void {
    this.methods = methods;
    this.tellConnected();
    this.editor.send();
  }

  private tellConnected(): void {
    if (this.methods === undefined) return;
    const session = this.sid || this.context.workspaceState.get<string>(SESSION, "");
    const model = vscode.workspace.getConfiguration("sidecar").get<string>("model", "");
    this.view.tell("panel/connected", { folder: folders()[0] ?? homedir(), session, methods: this.methods, model });
  }

  private lost(reason: string, isFinal: boolean): void {
    const wasReported = this.methods === undefined;
    this.questions.clear();
    this.gauge.clear();
    // The next daemon may be there already.
    if (!this.daemon.isRunning) this.methods = undefined;
    this.view.tell("panel/disconnected", { reason });
    if (this.daemon.isRunning) this.tellConnected();
    if (isFinal && !wasReported) void tellWhatToSet(vscode.workspace.getConfiguration("sidecar").get<string>("command", ""), `it has died too often: ${reason}`);
  }

  /** What the daemon says. */
  private said(method: string, params: unknown): void {
    this.view.tell(method, params as object);
    if (method === "sidecar/permission/resolved") this.questions.resolve((params as { permissionId: string }).permissionId);
    if (method === "sidecar/elicitResolved") this.questions.resolve((params as { elicitationId: string }).elicitationId);
    if (method === "sidecar/sessions/changed") {
      const { sessions = [] } = params as { sessions?: WorkLine[] };
      for (const line of sessions) if (line.sid === this.sid) this.gauge.showWork(line);
    }
    const event = params as SidecarEvent;
    if (method === "sidecar/event" && event.kind === "usage" && event.sid === this.sid) this.gauge.show(event.data as Usage);
  }

  /** What the panel says. */
  private async heard(method: string, params: Record<string, unknown>): Promise<void> {
    const text = (name: string) => String(params[name] ?? "");
    switch (method) {
      case "panel/ready":
        this.tellConnected();
        this.view.tell("panel/chips", { chips: this.chips });
        for (const [method, request] of this.questions.all) this.view.tell(method, request);
        break;
      case "panel/answer":
        this.questions.answer(text("questionId"), params.answer as PermissionAnswer | ElicitationAnswer);
        break;
      case "panel/follow":
        this.sid = text("sid");
        await this.context.workspaceState.update(SESSION, this.sid);
        this.gauge.clear();
        if (this.sid !== "") this.gauge.show(await this.daemon.request<Usage>("sidecar/context/usage", { sid: this.sid }));
        break;
      case "panel/openFile":
        await openFile(text("path"), params.line as number | undefined);
        break;
      case "panel/openLink":
        if (/^https?:\/\//i.test(text("url"))) await vscode.env.openExternal(vscode.Uri.parse(text("url"), true));
        break;
      case "panel/openComparison":
        await this.compare(text("sid"), text("compactionId"));
        break;
      case "panel/openDiff":
        await this.diffs.open(text("path"), text("before"), text("after"));
        break;
      case "panel/dropChip":
        this.editor.drop(text("id"));
        break;
    }
  }
}

/** Texts before and after a change, for the editor's own view of differences; the last few are kept. */
class DiffTexts implements vscode.TextDocumentContentProvider {
  static readonly SCHEME = "sidecar-diff";
  private readonly texts = new Map<string, string>();
  private count = 0;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "";
  }

  async open(path: string, before: string, after: string): Promise<void> {
    const number = ++this.count;
    const [left, right] = (["before", "after"] as const).map((side) => vscode.Uri.from({ scheme: DiffTexts.SCHEME, path: `/${number}/${side}/${path.replaceAll("\\", "/").replace(/^\//, "")}` })) as [vscode.Uri, vscode.Uri];
    this.texts.set(left.toString(), before).set(right.toString(), after);
    for (const old of [...this.texts.keys()].slice(0, -40)) this.texts.delete(old);
    await vscode.commands.executeCommand("vscode.diff", left, right, `${vscode.workspace.asRelativePath(path)}: the change`);
  }
}

/** The names differ from the daemon's own commands, which the client library registers by itself. */
function commands(one: Sidecar): vscode.Disposable[] {
  const register = (name: string, run: () => Promise<unknown>): vscode.Disposable =>
    vscode.commands.registerCommand(`sidecar.ui.${name}`, () => run().catch(tellError));
  return [
    register("prompt", () => one.view.act("focus")),
    register("ask", () => one.selection.askAbout()),
    register("change", () => one.selection.begin()),
    register("accept", () => one.selection.accept()),
    register("refuse", () => one.selection.refuse()),
    register("togglePart", () => one.selection.togglePart()),
    register("new", () => one.view.act("begin")),
    register("resume", () => one.view.act("sessions")),
    register("interrupt", () => one.daemon.request("sidecar/turn/interrupt", { sid: one.shown() })),
    register("preview", () => one.view.act("preview")),
    register("compact", () => one.daemon.request("sidecar/compact/start", { sid: one.shown() })),
    register("undo", () => one.daemon.request("sidecar/compact/undo", { sid: one.shown() })),
    register("compare", () => compare(one)),
    register("context", () => one.view.act("context")),
    register("permission", () => one.questions.pick()),
    register("transcript", async () => vscode.window.showTextDocument(vscode.Uri.from({ scheme: "sidecar-session", path: `/${one.shown()}/transcript.md` }))),
    register("restart", () => one.restart()),
  ];
}

async function compare(one: Sidecar): Promise<void> {
  const sid = one.shown();
  const { compactions } = await one.daemon.request<{ compactions: Compaction[] }>("sidecar/compact/list", { sid });
  const last = compactions.filter(({ postTokens }) => postTokens !== undefined).at(-1);
  if (last === undefined) void vscode.window.showInformationMessage("Nothing was compacted yet");
  else await one.compare(sid, last.compactionId);
}

async function openFile(path: string, line: number | undefined): Promise<void> {
  const folder = folders()[0] ?? homedir();
  const uri = /^[a-z][a-z+.-]+:\/\//i.test(path) ? vscode.Uri.parse(path) : vscode.Uri.file(isAbsolute(path) ? path : join(folder, path));
  if (uri.scheme !== "file") return;
  // A path may name another machine, which Windows would then greet with the user's credentials.
  if (uri.authority !== "" && vscode.workspace.getWorkspaceFolder(uri) === undefined) {
    throw new Error(`${uri.fsPath} is on another machine and in no folder that is open here; open it by hand if you trust it`);
  }
  const at = Math.max(0, (line ?? 1) - 1);
  await vscode.window.showTextDocument(uri, line === undefined ? {} : { selection: new vscode.Range(at, 0, at, 0) });
}

/** Without a daemon there is nothing but this: which program was tried, and where another one is named. */
async function tellWhatToSet(command: string, why: string): Promise<void> {
  const text = `The daemon ${command === "" ? "" : `"${command}" `}did not start: ${why}. Install it, and say where it is.`;
  const chosen = await vscode.window.showErrorMessage(text, "Open the Setting", "Try Again");
  if (chosen === "Open the Setting") await vscode.commands.executeCommand("workbench.action.openSettings", "sidecar.command");
  if (chosen === "Try Again") await vscode.commands.executeCommand("sidecar.ui.restart");
}

function tellError(error: unknown): void {
  const hint = error instanceof ResponseError ? (error.data as { hint?: string } | undefined)?.hint : undefined;
  const message = error instanceof Error ? error.message : String(error);
  void vscode.window.showErrorMessage(hint ? `${message} — ${hint}` : message);
}

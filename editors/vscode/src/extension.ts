import * as vscode from "vscode";
import type { ClientCapabilities, FeatureState, StaticFeature } from "vscode-languageclient/node";
import { LanguageClient, ResponseError, State } from "vscode-languageclient/node";
import { Conversation } from "./conversation";
import { describe, Gauge } from "./gauge";
import { EVENT_KINDS, type SidecarEvent } from "./wire";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("Sidecar", "markdown");
  client = newClient();
  const conversation = new Conversation(client, output);
  const gauge = new Gauge("sidecar.ui.context");
  client.registerFeature(new SidecarCapability());
  client.onNotification("sidecar/event", (event: SidecarEvent) => {
    if (event.kind === "usage") gauge.show(event.data);
    conversation.take(event);
  });
  client.onDidChangeState((change) => {
    if (change.newState === State.Stopped) {
      conversation.reset();
      gauge.clear();
    }
  });
  context.subscriptions.push(output, gauge, ...commands(conversation, gauge, output));
  await client.start().catch(tellWhatToSet);
}

export async function deactivate(): Promise<void> {
  // One that never started cannot be stopped.
  if (client?.isRunning()) await client.stop();
}

function newClient(): LanguageClient {
  const settings = vscode.workspace.getConfiguration("sidecar");
  const command = settings.get<string>("command", "sidecar");
  const args = settings.get<string[]>("arguments", []);
  return new LanguageClient(
    "sidecar",
    "Sidecar (daemon)",
    { command, args },
    { documentSelector: [{ scheme: "file" }, { scheme: "untitled" }] },
  );
}

/** Says that this client knows the daemon's events, and which it wants. */
class SidecarCapability implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    const sidecar = { protocol: [1], events: { coalesceMs: 33, kinds: EVENT_KINDS } };
    capabilities.experimental = { ...(capabilities.experimental as object | undefined), sidecar };
  }

  initialize(): void {}

  getState(): FeatureState {
    return { kind: "static" };
  }

  clear(): void {}
}

/** The names differ from the daemon's own commands, which the client library registers by itself. */
function commands(conversation: Conversation, gauge: Gauge, output: vscode.OutputChannel): vscode.Disposable[] {
  const register = (name: string, run: () => Promise<unknown>): vscode.Disposable =>
    vscode.commands.registerCommand(`sidecar.ui.${name}`, () => run().catch(tellError));
  return [
    register("prompt", () => prompt(conversation, output)),
    register("new", async () => startAnew(conversation, gauge)),
    register("resume", () => resume(conversation, gauge)),
    register("interrupt", () => conversation.interrupt()),
    register("compact", () => compact(conversation)),
    register("undo", () => undo(conversation)),
    register("compare", () => compare(conversation)),
    register("context", () => showContext(conversation)),
    register("transcript", async () => vscode.window.showTextDocument(await conversation.document("transcript.md"))),
  ];
}

async function prompt(conversation: Conversation, output: vscode.OutputChannel): Promise<void> {
  const text = await vscode.window.showInputBox({ prompt: "What shall it do?", ignoreFocusOut: true });
  if (!text) return;
  output.show(true);
  await withCancel("Sidecar is at work", (cancel) => conversation.prompt(text, cancel));
}

function startAnew(conversation: Conversation, gauge: Gauge): void {
  conversation.reset();
  gauge.clear();
  void vscode.window.showInformationMessage("The next prompt begins a new conversation; the last one stays stored");
}

async function resume(conversation: Conversation, gauge: Gauge): Promise<void> {
  const items = (await conversation.stored()).map((one) => ({
    label: one.title || "(untitled)",
    description: `${one.messages} turns, ${new Date(one.updatedAt).toLocaleString()}`,
    sid: one.sid,
  }));
  const chosen = await vscode.window.showQuickPick(items, { title: "Conversations of this folder" });
  if (chosen !== undefined) gauge.show(await conversation.resume(chosen.sid));
}

async function compact(conversation: Conversation): Promise<void> {
  const done = await withCancel("Compacting the conversation", (cancel) => conversation.compact(cancel));
  if (done.status !== "completed") {
    void vscode.window.showInformationMessage(`${done.status}: ${done.reason ?? done.error ?? "no change"}`);
    return;
  }
  const sizes = `${done.preTokens.toLocaleString()} → ${(done.postTokens ?? 0).toLocaleString()} tokens`;
  const chosen = await vscode.window.showInformationMessage(`Compacted: ${sizes}`, "Compare", "Undo");
  if (chosen === "Compare") await compare(conversation);
  if (chosen === "Undo") await undo(conversation);
}

async function undo(conversation: Conversation): Promise<void> {
  const tokens = await conversation.undo();
  void vscode.window.showInformationMessage(`Undone: ${tokens.toLocaleString()} tokens are back`);
}

async function compare(conversation: Conversation): Promise<void> {
  const last = (await conversation.compactions()).filter((one) => one.postTokens !== undefined).at(-1);
  if (last === undefined) {
    void vscode.window.showInformationMessage("Nothing was compacted yet");
    return;
  }
  const document = (name: string) => conversation.document(`compaction/${last.compactionId}/${name}.md`);
  const [before, after, facts] = await Promise.all([document("before"), document("after"), document("facts")]);
  await vscode.commands.executeCommand("vscode.diff", before, after, "Compaction: before ↔ after");
  await vscode.window.showTextDocument(facts, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
}

async function showContext(conversation: Conversation): Promise<void> {
  const [usage, files] = await Promise.all([conversation.usage(), conversation.files()]);
  const items = files.map((file) => ({
    label: vscode.workspace.asRelativePath(vscode.Uri.parse(file.uri)),
    description: `${file.tokens.toLocaleString()} tokens`,
    detail: [file.stale && "changed since it was read", !file.inWindow && "no longer seen"]
      .filter(Boolean)
      .join(", "),
    uri: vscode.Uri.parse(file.uri),
  }));
  const chosen = await vscode.window.showQuickPick(items, { title: describe(usage), placeHolder: "Files it has read" });
  if (chosen !== undefined) await vscode.window.showTextDocument(chosen.uri);
}

function withCancel<T>(title: string, run: (cancel: vscode.CancellationToken) => Promise<T>): Thenable<T> {
  const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
  return vscode.window.withProgress(options, (_progress, cancel) => run(cancel));
}

/** Without a daemon there is nothing but this: which program was tried, and where another one is named. */
async function tellWhatToSet(error: unknown): Promise<void> {
  const command = vscode.workspace.getConfiguration("sidecar").get<string>("command", "sidecar");
  const why = error instanceof Error ? error.message : String(error);
  const text = `The daemon "${command}" did not start: ${why}. Install it, and say where it is.`;
  const chosen = await vscode.window.showErrorMessage(text, "Open the Setting");
  if (chosen !== undefined) await vscode.commands.executeCommand("workbench.action.openSettings", "sidecar.command");
}

function tellError(error: unknown): void {
  const hint = error instanceof ResponseError ? (error.data as { hint?: string } | undefined)?.hint : undefined;
  const message = error instanceof Error ? error.message : String(error);
  void vscode.window.showErrorMessage(hint ? `${message} — ${hint}` : message);
}

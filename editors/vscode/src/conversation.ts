import { homedir } from "node:os";
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import type { Compaction, ContextFile, SidecarEvent, StoredSession, Usage } from "./wire";

/** The one conversation of this window; it begins with the first prompt. */
export class Conversation {
  private sid: Promise<string> | undefined;
  private readonly printed = new Set<string>();
  private readonly compacting = new Map<string, (done: Compaction) => void>();

  constructor(
    private readonly client: LanguageClient,
    private readonly output: vscode.OutputChannel,
  ) {}

  /** Forget the conversation, such as when the daemon was started anew; it stays stored. */
  reset(): void {
    this.sid = undefined;
    this.compacting.clear();
  }

  /** Return the stored conversations of this window's folder, the newest first. */
  async stored(): Promise<StoredSession[]> {
    const { sessions } = await this.client.sendRequest<{ sessions: StoredSession[] }>("sidecar/session/list", {
      cwd: folders()[0],
    });
    return sessions;
  }

  /** Go on with a stored conversation, and return how full its window is. */
  async resume(sid: string): Promise<Usage> {
    const loaded = await this.client.sendRequest<{ usage: Usage }>("sidecar/session/load", { sid });
    this.reset();
    this.sid = Promise.resolve(sid);
    return loaded.usage;
  }

  /** Send a prompt and return once it is answered; `cancel` interrupts the turn. */
  async prompt(text: string, cancel: vscode.CancellationToken): Promise<void> {
    const sid = await this.started();
    this.output.appendLine(`\n> ${text}\n`);
    const interrupting = cancel.onCancellationRequested(() => void this.interrupt());
    try {
      const ran = await this.client.sendRequest<{ stopReason: string }>("sidecar/turn/run", {
        sid,
        input: [{ type: "text", text }],
      });
      if (ran.stopReason !== "end_turn") this.output.appendLine(`(${ran.stopReason})`);
    } finally {
      interrupting.dispose();
    }
  }

  async interrupt(): Promise<void> {
    await this.client.sendRequest("sidecar/turn/interrupt", { sid: await this.started() });
  }

  /** Compact, and return how that went. */
  async compact(cancel: vscode.CancellationToken): Promise<Compaction> {
    const sid = await this.started();
    const begun = await this.client.sendRequest<{ compactionId: string; disposition: string; reason?: string }>(
      "sidecar/compact/start",
      { sid },
    );
    const { compactionId, disposition, reason } = begun;
    if (disposition === "noop") return { compactionId, status: "noop", preTokens: 0, reason };
    const ended = new Promise<Compaction>((resolve) => this.compacting.set(compactionId, resolve));
    cancel.onCancellationRequested(() => {
      void this.client.sendRequest("sidecar/compact/cancel", { sid, compactionId });
    });
    // Its end may have been told before its answer.
    const known = (await this.compactions()).find((one) => one.compactionId === compactionId);
    return known !== undefined && known.status !== "in_progress" ? known : ended;
  }

  /** Take the newest compaction back, and return the tokens that are back. */
  async undo(): Promise<number> {
    const sid = await this.started();
    return (await this.client.sendRequest<{ restoredTokens: number }>("sidecar/compact/undo", { sid }))
      .restoredTokens;
  }

  async compactions(): Promise<Compaction[]> {
    const sid = await this.started();
    return (await this.client.sendRequest<{ compactions: Compaction[] }>("sidecar/compact/list", { sid }))
      .compactions;
  }

  async usage(): Promise<Usage> {
    return this.client.sendRequest<Usage>("sidecar/context/usage", { sid: await this.started() });
  }

  async files(): Promise<ContextFile[]> {
    const sid = await this.started();
    return (await this.client.sendRequest<{ files: ContextFile[] }>("sidecar/context/files", { sid })).files;
  }

  /** Return the URI of one of the conversation's documents, such as `transcript.md`. */
  async document(path: string): Promise<vscode.Uri> {
    return vscode.Uri.from({ scheme: "sidecar-session", path: `/${await this.started()}/${path}` });
  }

  /** Print what happens, and hear of compactions that are over. */
  take(event: SidecarEvent): void {
    switch (event.kind) {
      case "textDelta":
        this.printed.add(event.data.messageId);
        this.output.append(event.data.delta);
        break;
      case "message":
        // Restates its deltas, and is all there is where none came.
        if (!this.printed.delete(event.data.messageId)) {
          this.output.append(event.data.content.map((block) => block.text ?? "").join("\n"));
        }
        this.output.appendLine("");
        break;
      case "toolStarted":
        this.output.appendLine(`· ${event.data.title}`);
        break;
      case "retry": {
        const { attempt, max, error, withdrawn } = event.data;
        if (withdrawn) this.output.appendLine("\n! What was shown of this answer does not count.");
        this.output.appendLine(`! The model is called again (${attempt} of ${max}): ${error}`);
        break;
      }
      case "notice":
        this.output.appendLine(`! ${event.data.title} ${event.data.description}`);
        break;
      case "compaction":
        if (event.data.status !== "in_progress") {
          this.compacting.get(event.data.compactionId)?.(event.data);
          this.compacting.delete(event.data.compactionId);
        }
        break;
    }
  }

  private started(): Promise<string> {
    this.sid ??= this.start().catch((error: unknown) => {
      this.sid = undefined;
      throw error;
    });
    return this.sid;
  }

  private async start(): Promise<string> {
    const [cwd = homedir(), ...roots] = folders();
    const model = vscode.workspace.getConfiguration("sidecar").get<string>("model") || undefined;
    return (await this.client.sendRequest<{ sid: string }>("sidecar/session/new", { cwd, roots, model })).sid;
  }
}

function folders(): string[] {
  return (vscode.workspace.workspaceFolders ?? [])
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => folder.uri.fsPath);
}

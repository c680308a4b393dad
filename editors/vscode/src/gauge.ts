import * as vscode from "vscode";
import type { Usage, WorkLine } from "./wire";

/** How full the model's window is and whether the conversation waits for its user, in the status bar. */
export class Gauge implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 50);
  private usage: Usage | undefined;
  private work: WorkLine | undefined;

  constructor(command: string) {
    this.item.name = "Sidecar context";
    this.item.command = command;
    this.clear();
    this.item.show();
  }

  clear(): void {
    this.usage = this.work = undefined;
    this.draw();
  }

  show(usage: Usage): void {
    this.usage = usage;
    this.draw();
  }

  showWork(work: WorkLine): void {
    this.work = work;
    this.draw();
  }

  private draw(): void {
    const { usage, work } = this;
    const isWaiting = work?.state === "waiting";
    const share = usage === undefined ? "–" : usage.window > 0 ? `${Math.round(usage.pct)}%` : "?";
    const isFull = usage !== undefined && usage.window > 0 && usage.used > usage.limit;
    const said = work?.state === "failed" ? `failed: ${work.text}` : isWaiting ? `waiting for you: ${work.text}` : undefined;
    this.item.text = `$(dashboard) ${share}${isWaiting ? " $(bell) waiting for you" : ""}`;
    this.item.tooltip = `Sidecar: ${[usage === undefined ? "no conversation yet" : describe(usage), said].filter(Boolean).join("\n")}`;
    this.item.backgroundColor = isWaiting || isFull ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }

  dispose(): void {
    this.item.dispose();
  }
}

/** Say how full the window is. */
export function describe(usage: Usage): string {
  const [used, window] = [usage.used, usage.window].map((tokens) => tokens.toLocaleString());
  return `${used}${usage.window > 0 ? ` of ${window}` : ""} tokens in the next request`;
}

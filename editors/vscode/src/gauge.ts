import * as vscode from "vscode";
import type { Usage } from "./wire";

/** How full the model's window is, in the status bar. */
export class Gauge implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 50);

  constructor(command: string) {
    this.item.name = "Sidecar context";
    this.item.command = command;
    this.clear();
    this.item.show();
  }

  clear(): void {
    this.item.text = "$(dashboard) –";
    this.item.tooltip = "Sidecar: no conversation yet";
    this.item.backgroundColor = undefined;
  }

  show(usage: Usage): void {
    this.item.text = `$(dashboard) ${usage.window > 0 ? `${Math.round(usage.pct)}%` : "?"}`;
    this.item.tooltip = `Sidecar: ${describe(usage)}`;
    this.item.backgroundColor =
      usage.window > 0 && usage.used > usage.limit ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
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

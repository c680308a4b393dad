import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { PanelMessage } from "./wire";

/** What the panel asks of the extension. */
export interface PanelHost {
  request(method: string, params: object): Promise<unknown>;
  said(method: string, params: Record<string, unknown>): void;
}

/** The view with the panel. Its script is the same as that of the page that `sidecar panel` serves. */
export class PanelView implements vscode.WebviewViewProvider {
  private view: vscode.WebviewView | undefined;
  private isReady = false;
  /** What is said before the panel listens. */
  private early: PanelMessage[] = [];

  constructor(
    private readonly extension: vscode.Uri,
    private readonly host: PanelHost,
  ) {}

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.isReady = false;
    const out = vscode.Uri.joinPath(this.extension, "out");
    view.webview.options = { enableScripts: true, localResourceRoots: [out] };
    view.webview.onDidReceiveMessage((message: PanelMessage) => void this.receive(message));
    view.onDidDispose(() => {
      this.view = undefined;
      this.isReady = false;
    });
    view.webview.html = html(view.webview, out);
  }

  /** Tell the panel something; what a panel that is not open misses, it asks for once it is. */
  tell(method: string, params: object): void {
    if (this.isReady) void this.view?.webview.postMessage({ jsonrpc: "2.0", method, params });
  }

  /** Show the panel, and let it do something. */
  async act(action: string, params: object = {}, options: { preserveFocus?: boolean } = {}): Promise<void> {
    await vscode.commands.executeCommand("sidecar.panel.focus", options);
    const message = { jsonrpc: "2.0", method: "panel/act", params: { action, ...params } };
    if (this.isReady) await this.view?.webview.postMessage(message);
    else this.early.push(message);
  }

  /** Show how many questions wait. */
  set badge(count: number) {
    if (this.view !== undefined) this.view.badge = { value: count, tooltip: count === 0 ? "" : "Sidecar waits for your answer" };
  }

  private async receive({ id, method = "", params = {} }: PanelMessage): Promise<void> {
    if (id === undefined) {
      if (method === "panel/ready") this.isReady = true;
      this.host.said(method, params);
      if (method === "panel/ready") for (const message of this.early.splice(0)) void this.view?.webview.postMessage(message);
      return;
    }
    let answer: PanelMessage;
    try {
      answer = { id, result: await this.host.request(method, params) };
    } catch (error) {
      const { message, data } = error as { message?: string; data?: unknown };
      answer = { id, error: { message: message ?? String(error), data } };
    }
    void this.view?.webview.postMessage({ jsonrpc: "2.0", ...answer });
  }
}

function html(webview: vscode.Webview, out: vscode.Uri): string {
  const nonce = randomBytes(16).toString("base64");
  const at = (name: string) => webview.asWebviewUri(vscode.Uri.joinPath(out, name)).toString();
  const policy = `default-src 'none'; img-src data:; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="${policy}" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="stylesheet" href="${at("panel.css")}" />
    <title>Sidecar</title>
  </head>
  <body>
    <div id="panel"></div>
    <script type="module" nonce="${nonce}" src="${at("panel.js")}"></script>
  </body>
</html>`;
}

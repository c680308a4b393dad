import * as vscode from "vscode";
import type { PermissionAnswer, PermissionRequest } from "./wire";

/** Characters of a title that the list of answers shows whole. */
const MOST_TITLE = 100;

/** The questions for permission that wait. They stay until they are answered: in the panel, and in the status bar. */
export class Questions implements vscode.Disposable {
  private readonly waiting = new Map<string, { request: PermissionRequest; answer: (answer: PermissionAnswer) => void }>();
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Left, 1000);

  constructor(
    command: string,
    private readonly changed: (count: number) => void,
  ) {
    this.item.name = "Sidecar question";
    this.item.command = command;
  }

  get all(): PermissionRequest[] {
    return [...this.waiting.values()].map(({ request }) => request);
  }

  ask(request: PermissionRequest): Promise<PermissionAnswer> {
    return new Promise((answer) => {
      this.waiting.set(request.permissionId, { request, answer });
      this.draw();
    });
  }

  answer(permissionId: string, answer: PermissionAnswer): void {
    this.waiting.get(permissionId)?.answer(answer);
    this.resolve(permissionId);
  }

  /** Forget a question that was answered elsewhere, or has expired. */
  resolve(permissionId: string): void {
    const one = this.waiting.get(permissionId);
    if (!this.waiting.delete(permissionId)) return;
    one?.answer({ outcome: "cancelled" });
    this.draw();
  }

  clear(): void {
    for (const permissionId of [...this.waiting.keys()]) this.resolve(permissionId);
  }

  /** Ask for the answer to the oldest one, with nothing chosen beforehand. */
  async pick(): Promise<void> {
    const [request] = this.all;
    if (request === undefined) return;
    // The list shows the title and no more: what needs more to be judged is allowed where it can be read.
    const { detail, diffs } = request.subject;
    const isWhole = diffs.length === 0 && request.title.includes(detail) && request.title.length <= MOST_TITLE;
    const answers = request.options.filter(({ kind }) => isWhole || !kind.startsWith("allow"));
    const items = answers.map(({ name, optionId }) => ({ label: name, optionId }));
    const chosen = await vscode.window.showQuickPick([{ label: "Look at it in the panel", optionId: "" }, ...items], { title: request.title, placeHolder: request.description });
    if (chosen === undefined) return;
    if (chosen.optionId === "") await vscode.commands.executeCommand("sidecar.panel.focus");
    else this.answer(request.permissionId, { outcome: "selected", optionId: chosen.optionId });
  }

  dispose(): void {
    this.item.dispose();
  }

  private draw(): void {
    const [first] = this.all;
    this.changed(this.waiting.size);
    if (first === undefined) {
      this.item.hide();
      return;
    }
    this.item.text = `$(question) ${first.title}${this.waiting.size > 1 ? ` (+${this.waiting.size - 1})` : ""}`;
    this.item.tooltip = "Sidecar waits for your answer";
    this.item.backgroundColor = new vscode.ThemeColor("statusBarItem.warningBackground");
    this.item.show();
  }
}

import * as vscode from "vscode";
import type { Elicitation, ElicitationAnswer, PermissionAnswer, PermissionRequest } from "./wire";

/** Characters of a title that the list of answers shows whole. */
const MOST_TITLE = 100;

type Answer = PermissionAnswer | ElicitationAnswer;

interface Waiting {
  title: string;
  permission?: PermissionRequest;
  form?: Elicitation;
  answer: (answer: Answer) => void;
}

/** The questions that wait. They stay until they are answered: in the panel, and in the status bar. */
export class Questions implements vscode.Disposable {
  private readonly waiting = new Map<string, Waiting>();
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Left, 1000);

  constructor(
    command: string,
    private readonly changed: (count: number) => void,
  ) {
    this.item.name = "Sidecar question";
    this.item.command = command;
  }

  /** What the panel is told of each question: the method and its params. */
  get all(): [string, PermissionRequest | Elicitation][] {
    return [...this.waiting.values()].map(({ permission, form }) => (permission ? ["panel/permission", permission] : ["panel/form", form as Elicitation]));
  }

  ask(permission: PermissionRequest): Promise<PermissionAnswer> {
    return this.add(permission.permissionId, { title: permission.title, permission }) as Promise<PermissionAnswer>;
  }

  elicit(form: Elicitation): Promise<ElicitationAnswer> {
    return this.add(form.elicitationId, { title: form.message, form }) as Promise<ElicitationAnswer>;
  }

  answer(id: string, answer: Answer): void {
    this.waiting.get(id)?.answer(answer);
    this.resolve(id);
  }

  /** Forget a question that was answered elsewhere, or has expired. */
  resolve(id: string): void {
    const one = this.waiting.get(id);
    if (!this.waiting.delete(id)) return;
    one?.answer(one.permission ? { outcome: "cancelled" } : { action: "cancel" });
    this.draw();
  }

  clear(): void {
    for (const id of [...this.waiting.keys()]) this.resolve(id);
  }

  /** Ask for the answer to the oldest one, with nothing chosen beforehand. */
  async pick(): Promise<void> {
    const [first] = this.waiting.values();
    if (first === undefined) return;
    const request = first.permission;
    if (request === undefined) return void (await vscode.commands.executeCommand("sidecar.panel.focus"));
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

  private add(id: string, question: Omit<Waiting, "answer">): Promise<Answer> {
    return new Promise((answer) => {
      this.waiting.set(id, { ...question, answer });
      this.draw();
    });
  }

  private draw(): void {
    const [first] = this.waiting.values();
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

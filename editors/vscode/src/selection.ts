/**
 * The commands about the selection: ask about it, or let the model change it.
 *
 * A change is a prompt that is bound to the selected lines. The question about its edit is shown as a difference between
 * the file, with unsaved text, and the proposal, which can be edited or taken back in parts before it is accepted. A
 * question about other files, or of another turn, stays with the panel.
 */

import { relative } from "node:path";
import * as vscode from "vscode";
import { folders } from "./daemon";
import { answersFor, nearest, split } from "./hunks";
import type { Diff, PermissionAnswer, PermissionRequest } from "./wire";

const SCHEME = "sidecar-proposal";

/** Lines of a file, from 1, both included. */
interface Place {
  document: vscode.TextDocument;
  first: number;
  last: number;
}

interface Change extends Place {
  prompt: string;
  turnId?: string;
}

interface Proposal {
  request: PermissionRequest;
  diff: Diff;
  uri: vscode.Uri;
  /** The proposed text as the editor has read it. */
  text: string;
}

export interface SelectionHost {
  /** Send a prompt in the conversation that the panel shows. */
  send(prompt: string, preserveFocus: boolean): Promise<void>;
  answer(permissionId: string, answer: PermissionAnswer): void;
}

export class SelectionCommands implements vscode.Disposable {
  private readonly files = new ProposedFiles();
  private readonly registered = vscode.workspace.registerFileSystemProvider(SCHEME, this.files, { isCaseSensitive: true });
  private readonly proposals = new Map<string, Proposal>();
  private change: Change | undefined;

  constructor(private readonly host: SelectionHost) {}

  dispose(): void {
    this.registered.dispose();
  }

  async askAbout(): Promise<void> {
    const place = selected();
    const question = await vscode.window.showInputBox({ title: `Ask about ${describe(place)}`, placeHolder: "What do you want to know?" });
    if (question?.trim()) await this.host.send(`About ${mention(place)}: ${question}`, false);
  }

  async begin(): Promise<void> {
    const place = selected();
    const instruction = await vscode.window.showInputBox({ title: `Change ${describe(place)}`, placeHolder: "What is to be done with it?" });
    if (!instruction?.trim()) return;
    const prompt = `Change only ${lines(place)}, ${mention(place)}, and do it by an edit: ${instruction}`;
    this.change = { ...place, prompt };
    await this.host.send(prompt, true);
  }

  /** Learn from what the panel sent which turn the change is. */
  sent(prompt: unknown, turnId: unknown): void {
    if (this.change !== undefined && this.change.prompt === prompt) this.change.turnId = String(turnId);
  }

  /** Show a question of the change until it is answered; other questions are left alone. */
  async show(request: PermissionRequest, answered: Promise<unknown>): Promise<void> {
    const change = this.change;
    const [diff, ...others] = request.subject.diffs;
    if (change === undefined || change.turnId === undefined || change.turnId !== request.turnId || diff === undefined || others.length > 0) return;
    if (vscode.Uri.file(diff.path).fsPath !== change.document.uri.fsPath) return;
    const name = vscode.workspace.asRelativePath(change.document.uri);
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${request.permissionId}/${name.replaceAll("\\", "/").replace(/^\//, "")}` });
    this.files.texts.set(uri.toString(), new TextEncoder().encode(diff.newText));
    const text = (await vscode.workspace.openTextDocument(uri)).getText();
    this.proposals.set(request.permissionId, { request, diff, uri, text });
    void answered.finally(() => this.close(request.permissionId));
    const isBeyond = diff.hunks.some(({ oldStart, oldEnd }) => oldStart < change.first - 1 || oldEnd > change.last);
    const at = new vscode.Position(diff.hunks[0]?.newStart ?? 0, 0);
    const title = `${name}: the proposed change${isBeyond ? ", which goes beyond the selection" : ""}`;
    await vscode.commands.executeCommand("vscode.diff", change.document.uri, uri, title, { selection: new vscode.Range(at, at) });
  }

  /** Accept the proposal as its text is now. */
  async accept(): Promise<void> {
    const { request, diff, uri, text } = this.shown();
    const now = (await vscode.workspace.openTextDocument(uri)).getText();
    const hunks = now === text ? [] : answersFor(diff, 0, now);
    if (hunks === undefined || (hunks.length === 0 && now !== text)) throw new Error("only the lines of the proposed change can be edited; undo what was done to others, or refuse it");
    this.answer(request, "allow_once", hunks);
  }

  async refuse(): Promise<void> {
    this.answer(this.shown().request, "reject_once");
  }

  /** Refuse the part of the proposal at the cursor, or take it back in. */
  async togglePart(): Promise<void> {
    const { diff, uri } = this.shown();
    const editor = vscode.window.visibleTextEditors.find(({ document }) => document.uri.toString() === uri.toString());
    const pieces = editor && split(diff, editor.document.getText());
    const piece = pieces && nearest(pieces, editor.selection.active.line);
    if (editor === undefined || piece === undefined) throw new Error("this proposal has no parts, or other lines of it were edited");
    const isProposed = piece.lines.join("") === piece.proposed.join("");
    const where = new vscode.Range(piece.at, 0, piece.at + piece.lines.length, 0);
    await editor.edit((edit) => edit.replace(where, (isProposed ? piece.before : piece.proposed).join("")));
  }

  private shown(): Proposal {
    const active = vscode.window.activeTextEditor?.document.uri.toString();
    const all = [...this.proposals.values()];
    const one = all.find(({ uri }) => uri.toString() === active) ?? all.at(-1);
    if (one === undefined) throw new Error("no change is proposed; Sidecar: Change the Selection asks for one");
    return one;
  }

  private answer(request: PermissionRequest, kind: string, hunks?: PermissionAnswer["hunks"]): void {
    const option = request.options.find((each) => each.kind === kind);
    if (option === undefined) throw new Error("this question has no such answer; the panel has those it has");
    this.host.answer(request.permissionId, { outcome: "selected", optionId: option.optionId, hunks });
  }

  private async close(permissionId: string): Promise<void> {
    const proposal = this.proposals.get(permissionId);
    if (proposal === undefined) return;
    this.proposals.delete(permissionId);
    const address = proposal.uri.toString();
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const own = tabs.filter(({ input }) => input instanceof vscode.TabInputTextDiff && input.modified.toString() === address);
    // Saved into memory, so that nobody is asked whether to.
    await vscode.workspace.textDocuments.find(({ uri, isDirty }) => isDirty && uri.toString() === address)?.save();
    await vscode.window.tabGroups.close(own);
    this.files.texts.delete(address);
  }
}

/** The lines that are selected, or the one of the cursor. */
function selected(): Place {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.uri.scheme !== "file") throw new Error("nothing is selected in a file; open one, and select some lines");
  const { start, end } = editor.selection;
  const endsBefore = end.character === 0 && end.line > start.line;
  return { document: editor.document, first: start.line + 1, last: end.line + (endsBefore ? 0 : 1) };
}

function lines({ first, last }: Place): string {
  return first === last ? `line ${first}` : `lines ${first} to ${last}`;
}

function describe(place: Place): string {
  return `${lines(place)} of ${vscode.workspace.asRelativePath(place.document.uri)}`;
}

function mention({ document, first, last }: Place): string {
  const { fsPath } = document.uri;
  const folder = folders()[0];
  const name = folder === undefined ? fsPath : relative(folder, fsPath);
  return `@"${name.startsWith("..") ? fsPath : name}:${first}-${last}"`;
}

/** The proposed texts as files in memory, for only those can be edited beside another file. */
class ProposedFiles implements vscode.FileSystemProvider {
  readonly texts = new Map<string, Uint8Array>();
  private readonly changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly onDidChangeFile = this.changed.event;

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => undefined);
  }

  stat(uri: vscode.Uri): vscode.FileStat {
    return { type: vscode.FileType.File, ctime: 0, mtime: Date.now(), size: this.readFile(uri).length };
  }

  readFile(uri: vscode.Uri): Uint8Array {
    const text = this.texts.get(uri.toString());
    if (text === undefined) throw vscode.FileSystemError.FileNotFound(uri);
    return text;
  }

  writeFile(uri: vscode.Uri, content: Uint8Array): void {
    this.readFile(uri); // fails for a question that is over
    this.texts.set(uri.toString(), content);
  }

  readDirectory(): [string, vscode.FileType][] {
    return [];
  }

  createDirectory(uri: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  delete(uri: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  rename(uri: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(uri);
  }
}

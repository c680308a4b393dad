/** What the user looks at, for the model: the file, the selection, the tabs and the problems, a moment after they change. */

import * as vscode from "vscode";
import type { Chip } from "./wire";

const QUIET_MS = 200;
const MOST_TABS = 50;
const MOST_FILES = 30;
const MOST_PROBLEMS = 20;

export class EditorContext implements vscode.Disposable {
  private readonly watching: vscode.Disposable[];
  private readonly left = new Set<string>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly report: (params: object) => void,
    private readonly show: (chips: Chip[]) => void,
  ) {
    const later = (...ids: string[]) => () => this.later(ids);
    this.watching = [
      vscode.window.onDidChangeActiveTextEditor(later("file", "selection")),
      vscode.window.onDidChangeTextEditorSelection(later("selection")),
      vscode.window.onDidChangeTextEditorVisibleRanges(later()),
      vscode.window.tabGroups.onDidChangeTabs(later()),
      vscode.languages.onDidChangeDiagnostics(later("problems")),
    ];
  }

  /** Leave something out, until it changes. */
  drop(id: string): void {
    this.left.add(id);
    this.send();
  }

  /** Report all of it now, such as to a daemon that was just started. */
  send(): void {
    const editor = this.editor();
    const selection = editor?.selection;
    const isSelected = selection !== undefined && !selection.isEmpty && !this.left.has("selection");
    const problems = this.left.has("problems") ? [] : this.problems();
    this.report({
      active: editor === undefined ? null : {
        uri: editor.document.uri.toString(),
        languageId: editor.document.languageId,
        isDirty: editor.document.isDirty,
        selections: isSelected ? [range(selection)] : [],
        visibleRanges: editor.visibleRanges.slice(0, 4).map(range),
      },
      tabs: this.tabs(),
      diagnostics: problems,
      replacesDiagnostics: true,
    });
    this.show(this.chips(editor, isSelected ? selection : undefined, problems));
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const each of this.watching) each.dispose();
  }

  private later(ids: string[]): void {
    for (const id of ids) this.left.delete(id);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), QUIET_MS);
  }

  /** The editor of a file; the panel itself is none, and while it has the focus the last one stays. */
  private editor(): vscode.TextEditor | undefined {
    if (this.left.has("file")) return undefined;
    const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
    return editor !== undefined && ["file", "untitled"].includes(editor.document.uri.scheme) ? editor : undefined;
  }

  private tabs(): object[] {
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const uris = tabs.flatMap((tab) => (tab.input instanceof vscode.TabInputText && tab.input.uri.scheme === "file" ? [{ uri: tab.input.uri.toString(), isDirty: tab.isDirty }] : []));
    return uris.slice(0, MOST_TABS);
  }

  /** Errors and warnings; the daemon's own hints are no problems. */
  private problems(): { uri: string; diagnostics: object[] }[] {
    const files = vscode.languages.getDiagnostics().flatMap(([uri, all]) => {
      const found = all.filter(({ severity, source }) => severity <= vscode.DiagnosticSeverity.Warning && source !== "sidecar");
      return uri.scheme === "file" && found.length > 0 ? [{ uri: uri.toString(), diagnostics: found.slice(0, MOST_PROBLEMS).map(problem) }] : [];
    });
    return files.slice(0, MOST_FILES);
  }

  private chips(editor: vscode.TextEditor | undefined, selection: vscode.Selection | undefined, problems: { diagnostics: object[] }[]): Chip[] {
    const chips: Chip[] = [];
    if (editor !== undefined) {
      const path = vscode.workspace.asRelativePath(editor.document.uri);
      const lines = selection === undefined ? "" : `:${selection.start.line + 1}-${selection.end.line + 1}`;
      chips.push({ id: selection === undefined ? "file" : "selection", label: `${path}${lines}`, detail: selection === undefined ? "The file that you look at" : "Your selection" });
    }
    const count = problems.reduce((sum, { diagnostics }) => sum + diagnostics.length, 0);
    if (count > 0) chips.push({ id: "problems", label: `${count} problem${count === 1 ? "" : "s"}`, detail: "Errors and warnings of the editor" });
    return chips;
  }
}

export function range({ start, end }: vscode.Range): object {
  return { start: { line: start.line, character: start.character }, end: { line: end.line, character: end.character } };
}

function problem({ range: where, message, severity, source }: vscode.Diagnostic): object {
  return { range: range(where), message: message.slice(0, 500), severity: severity + 1, ...(source === undefined ? {} : { source }) };
}

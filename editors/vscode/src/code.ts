/**
 * Answers to the model's questions about code, by the language extensions of this window, in the shapes of the Language
 * Server Protocol. Nothing is changed here: a rename comes back as the edit that it would be.
 */

import * as vscode from "vscode";
import { range } from "./context";
import type { EditorAnswer, EditorQuery, QueryKind } from "./wire";

const MOST_RESOLVED = 20;
const WAKE_MS = 6000;
const AGAIN_MS = 300;

type Place = vscode.Location | vscode.LocationLink;
type CodeSymbol = vscode.DocumentSymbol | vscode.SymbolInformation;

/** By kind: the answer, nothing where there is none. */
const ANSWERS: Record<QueryKind, (query: EditorQuery, uri: vscode.Uri) => Promise<unknown>> = {
  definition: async (query, uri) => (await run<Place[]>("vscode.executeDefinitionProvider", uri, at(query)))?.map(place),
  references: async (query, uri) => (await run<Place[]>("vscode.executeReferenceProvider", uri, at(query)))?.map(place),
  documentSymbols: async (_, uri) => (await run<CodeSymbol[]>("vscode.executeDocumentSymbolProvider", uri))?.map(symbol),
  workspaceSymbols: async ({ text }) => (await run<CodeSymbol[]>("vscode.executeWorkspaceSymbolProvider", text ?? ""))?.map(symbol),
  hover: async (query, uri) => {
    const hovers = (await run<vscode.Hover[]>("vscode.executeHoverProvider", uri, at(query))) ?? [];
    return hovers.length > 0 ? { contents: hovers.flatMap(({ contents }) => contents.map((one) => (typeof one === "string" ? one : one.value))) } : undefined;
  },
  rename: async (query, uri) => {
    const edit = await run<vscode.WorkspaceEdit>("vscode.executeDocumentRenameProvider", uri, at(query), query.text);
    return edit === undefined || edit.size === 0 ? undefined : workspaceEdit(edit);
  },
  codeActions: async (query, uri) => {
    const { range: line } = (await vscode.workspace.openTextDocument(uri)).lineAt(at(query));
    return (await run<(vscode.CodeAction | vscode.Command)[]>("vscode.executeCodeActionProvider", uri, line, undefined, MOST_RESOLVED))?.map(codeAction);
  },
};

export const KINDS = Object.keys(ANSWERS);

/** Answer one question; what a language extension refuses is told in its own words. */
export async function answerQuery(query: EditorQuery): Promise<EditorAnswer> {
  const uri = vscode.Uri.parse(query.uri);
  try {
    const language = query.kind === "workspaceSymbols" ? "" : (await vscode.workspace.openTextDocument(uri)).languageId;
    return { answer: await askAwake(language, () => ANSWERS[query.kind](query, uri)), positionEncoding: "utf-16" };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

const awake = new Set<string>();

/**
 * Ask until there is an answer, for some seconds the first time: a language extension begins with the first document of
 * its language that is opened, seen or not, and the editor does not say when it is ready.
 */
async function askAwake(language: string, ask: () => Promise<unknown>): Promise<unknown> {
  const end = Date.now() + (awake.has(language) ? 0 : WAKE_MS);
  for (;;) {
    const found = await ask();
    const isEmpty = found === undefined || (Array.isArray(found) && found.length === 0);
    if (!isEmpty || Date.now() >= end) {
      awake.add(language);
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function run<T>(command: string, ...given: unknown[]): Promise<T | undefined> {
  return vscode.commands.executeCommand<T | undefined>(command, ...given);
}

function at({ position }: EditorQuery): vscode.Position {
  return new vscode.Position(position?.line ?? 0, position?.character ?? 0);
}

function place(one: Place): object {
  if (!("targetUri" in one)) return { uri: one.uri.toString(), range: range(one.range) };
  const { targetUri, targetRange, targetSelectionRange } = one;
  return { targetUri: targetUri.toString(), targetRange: range(targetRange), targetSelectionRange: range(targetSelectionRange ?? targetRange) };
}

function symbol(one: CodeSymbol): object {
  const named = { name: one.name, kind: one.kind + 1 };
  if ("location" in one) return { ...named, containerName: one.containerName, location: place(one.location) };
  return { ...named, range: range(one.range), selectionRange: range(one.selectionRange), children: one.children.map(symbol) };
}

/** The edits of texts; with files that are made, moved or removed there would be more, and then there is no answer. */
function workspaceEdit(edit: vscode.WorkspaceEdit): object {
  const entries = edit.entries();
  if (edit.size > entries.length) throw new Error("the edit also makes, renames or deletes files");
  return { changes: Object.fromEntries(entries.map(([uri, edits]) => [uri.toString(), edits.map((one) => ({ range: range(one.range), newText: one.newText }))])) };
}

function codeAction(one: vscode.CodeAction | vscode.Command): object {
  if ("command" in one && typeof one.command === "string") return { title: one.title, command: one.command };
  const { title, kind, edit } = one as vscode.CodeAction;
  const isWhole = edit !== undefined && edit.size > 0 && edit.size === edit.entries().length;
  return { title, kind: kind?.value, ...(isWhole ? { edit: workspaceEdit(edit) } : {}) };
}

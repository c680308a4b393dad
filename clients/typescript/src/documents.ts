/** Open buffers, as an editor tells of them: what is open here is the truth before what is on disk. */

/** A change of a buffer: to the whole new text, or LSP's `contentChanges`, in UTF-16 units as editors have them. */
export type TextChange = string | readonly (RangedChange | { readonly text: string })[];

export interface RangedChange {
  readonly range: { readonly start: Position; readonly end: Position };
  readonly text: string;
}

export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface OpenDocument {
  readonly uri: string;
  readonly text: string;
  readonly languageId?: string;
  readonly version?: number;
}

/** LSP's numbers for what happens to files. */
const FILE_CHANGES = { created: 1, changed: 2, deleted: 3 };

/** LSP's text synchronisation. Versions are counted here unless the caller has its own. */
export class Documents {
  readonly #notify: (method: string, params: object) => Promise<void>;
  readonly #versions = new Map<string, number>();

  constructor(notify: (method: string, params: object) => Promise<void>) {
    this.#notify = notify;
  }

  async opened({ uri, text, languageId = "plaintext", version = 1 }: OpenDocument): Promise<void> {
    this.#versions.set(uri, version);
    await this.#notify("textDocument/didOpen", { textDocument: { uri, languageId, version, text } });
  }

  /** An empty list, by which an editor says that only its dirty flag changed, is not told. */
  async changed(uri: string, change: TextChange, version = (this.#versions.get(uri) ?? 0) + 1): Promise<void> {
    const contentChanges = typeof change === "string" ? [{ text: change }] : change.map(plain);
    if (contentChanges.length === 0) return;
    this.#versions.set(uri, version);
    await this.#notify("textDocument/didChange", { textDocument: { uri, version }, contentChanges });
  }

  /** Say that the buffer is on disk now. */
  async saved(uri: string): Promise<void> {
    await this.#notify("textDocument/didSave", { textDocument: { uri } });
  }

  /** Close a buffer; from now on the disk is the truth. */
  async closed(uri: string): Promise<void> {
    this.#versions.delete(uri);
    await this.#notify("textDocument/didClose", { textDocument: { uri } });
  }

  /** Tell what happened to files on disk. */
  async filesChanged(changes: Iterable<readonly [string, keyof typeof FILE_CHANGES]>): Promise<void> {
    const listed = Array.from(changes, ([uri, what]) => ({ uri, type: FILE_CHANGES[what] }));
    await this.#notify("workspace/didChangeWatchedFiles", { changes: listed });
  }
}

/** The change as LSP spells it: VS Code's own ranges turn into JSON as arrays. */
function plain(change: RangedChange | { readonly text: string }): object {
  if (!("range" in change)) return { text: change.text };
  const [start, end] = [change.range.start, change.range.end].map(({ line, character }) => ({ line, character }));
  return { range: { start, end }, text: change.text };
}

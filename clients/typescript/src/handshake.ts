/** How a client introduces itself and what it answers, and what the daemon says of itself. */

import { basename } from "node:path";
import { pathToFileURL } from "node:url";

import { SidecarClientError } from "./errors.js";
import type { ClientRequests, EditorQueryParams } from "./protocol.js";

const PROTOCOL = 1;
const QUERY_KINDS: readonly EditorQueryParams["kind"][] = [
  "definition",
  "references",
  "documentSymbols",
  "workspaceSymbols",
  "hover",
  "rename",
  "codeActions",
];

/** Answers one request of the daemon; `signal` is aborted when it needs no answer any more. */
export type Handler<M extends keyof ClientRequests> = (
  params: ClientRequests[M]["params"],
  signal: AbortSignal,
) => ClientRequests[M]["result"] | Promise<ClientRequests[M]["result"]>;

export interface ClientOptions {
  /** `initializationOptions.sidecar`: `store`, `policy`, `models`, `trust`, ... */
  readonly options?: Readonly<Record<string, unknown>>;
  /** How deltas are gathered and which kinds of events are left out: `experimental.sidecar.events`. */
  readonly events?: { readonly coalesceMs?: number; readonly optOut?: readonly string[] };
  /** Answers the daemon's permission questions; without it they are all rejected. */
  readonly permission?: Handler<"sidecar/permission/request">;
  /** Answers forms of questions, which `sidecar/elicitResolved` takes back; without it none are asked of this client. */
  readonly elicit?: Handler<"sidecar/elicit">;
  /** Applies edits of the buffers this client has opened; without it the daemon leaves unsaved ones alone. */
  readonly applyEdit?: Handler<"sidecar/edit/apply">;
  /** Answers the model's questions about code, from the language servers of this editor; `{}` is no answer. */
  readonly queryEditor?: Handler<"sidecar/editor/query">;
  /** Takes what the daemon writes to its standard error, and what goes wrong in a handler. */
  readonly log?: (line: string) => void;
  /** How long the daemon may take to answer the handshake. */
  readonly startMs?: number;
}

/** What the daemon says of itself; it may say more than is listed here. */
export interface ServerInfo {
  readonly protocol: number;
  readonly server: { readonly name: string; readonly version: string; readonly build: string };
  readonly engines: readonly string[];
  readonly methods: readonly string[];
  readonly schemaHash?: string;
  /** Where further clients may attach. */
  readonly socket?: string;
}

/** The params of `initialize`; `folder` is that of a daemon of our own, which is to watch this process. */
export function introduction(folder: string | null, options: ClientOptions): object {
  const uri = folder === null ? null : pathToFileURL(folder).href;
  const edits = options.applyEdit === undefined ? {} : { edits: {} };
  const editor = options.queryEditor === undefined ? {} : { editor: { query: QUERY_KINDS } };
  const forms = options.elicit === undefined ? {} : { elicitation: { form: {}, url: {} } };
  const events = options.events ?? {};
  const sidecar = { protocol: [PROTOCOL], events, permission: {}, compaction: {}, ...forms, ...edits, ...editor };
  return {
    processId: folder === null ? null : process.pid,
    clientInfo: { name: "sidecar-client" },
    rootUri: uri,
    workspaceFolders: uri === null ? null : [{ uri, name: basename(uri) }],
    capabilities: { general: { positionEncodings: ["utf-16"] }, experimental: { sidecar } },
    initializationOptions: { sidecar: options.options ?? {} },
  };
}

/** What the daemon says of itself in its answer to `initialize`. Throws when it speaks another protocol. */
export function serverOf(answer: any): ServerInfo {
  const server = answer?.capabilities?.experimental?.sidecar;
  if (server?.protocol === PROTOCOL) return server;
  const said = server === undefined ? "nothing" : JSON.stringify(server);
  throw new SidecarClientError(`no daemon of protocol ${PROTOCOL}: it says ${said} of itself`);
}

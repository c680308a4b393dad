/** The few shapes of the daemon's protocol that this extension looks at; `sidecar schema` prints all of them. */

export interface Usage {
  used: number;
  window: number;
  limit: number;
  pct: number;
}

/** What a conversation does, or waits for, as its line in the list says it. */
export interface WorkLine {
  sid: string;
  state?: "idle" | "working" | "waiting" | "failed";
  text?: string;
}

export interface Compaction {
  compactionId: string;
  status: "in_progress" | "completed" | "noop" | "failed" | "cancelled" | "undone";
  preTokens: number;
  postTokens?: number;
  reason?: string;
  error?: string;
}

/** A question that waits for an answer. */
export interface PermissionRequest {
  sid: string;
  turnId?: string | null;
  permissionId: string;
  title: string;
  description?: string;
  subject: { detail: string; diffs: Diff[] };
  options: { optionId: string; name: string; kind: string }[];
}

export interface PermissionAnswer {
  outcome: "selected" | "cancelled";
  optionId?: string;
  hunks?: HunkAnswer[];
}

/** A proposed change of a file, with its parts: lines from 0, ends excluded. A new file has none. */
export interface Diff {
  path: string;
  oldText?: string | null;
  newText: string;
  hunks: { oldStart: number; oldEnd: number; newStart: number; newEnd: number }[];
}

/** The answer about a part that is not kept as proposed. */
export interface HunkAnswer {
  diff: number;
  hunk: number;
  accepted: boolean;
  text?: string;
}

export type QueryKind = "definition" | "references" | "documentSymbols" | "workspaceSymbols" | "hover" | "rename" | "codeActions";

/** A question of the model about code. */
export interface EditorQuery {
  kind: QueryKind;
  uri: string;
  position?: { line: number; character: number };
  text?: string;
}

export interface EditorAnswer {
  answer?: unknown;
  problem?: string;
  positionEncoding?: "utf-16";
}

/** Questions of the agent or of a tool server; the panel shows them as a form. */
export interface Elicitation {
  sid: string;
  elicitationId: string;
  message: string;
}

export interface ElicitationAnswer {
  action: "accept" | "decline" | "cancel";
  content?: Record<string, unknown>;
}

/** One event of a session; the panel reads all of them. */
export interface SidecarEvent {
  sid: string;
  kind: string;
  data: unknown;
}

/** What the extension and the panel say to each other, in the form of JSON-RPC. */
export interface PanelMessage {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: { message: string; data?: unknown };
}

/** Something of the editor that goes with the next prompt. */
export interface Chip {
  id: string;
  label: string;
  detail?: string;
}

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
  permissionId: string;
  title: string;
  description?: string;
  subject: { detail: string; diffs: unknown[] };
  options: { optionId: string; name: string; kind: string }[];
}

export interface PermissionAnswer {
  outcome: "selected" | "cancelled";
  optionId?: string;
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

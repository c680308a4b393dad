/** The few shapes of the daemon's protocol that this extension looks at; `sidecar schema` prints all of them. */

export interface Usage {
  used: number;
  window: number;
  limit: number;
  pct: number;
}

export interface ContextFile {
  uri: string;
  tokens: number;
  stale: boolean;
  inWindow: boolean;
}

export interface StoredSession {
  sid: string;
  title: string;
  updatedAt: number;
  messages: number;
}

export interface Compaction {
  compactionId: string;
  status: "in_progress" | "completed" | "noop" | "failed" | "cancelled" | "undone";
  preTokens: number;
  postTokens?: number;
  reason?: string;
  error?: string;
}

/** One event of a session; `data` depends on `kind`. */
export type SidecarEvent = { sid: string } & (
  | { kind: "textDelta"; data: { messageId: string; delta: string } }
  | { kind: "message"; data: { messageId: string; content: { type: string; text?: string }[] } }
  | { kind: "toolStarted"; data: { title: string } }
  | { kind: "usage"; data: Usage }
  | { kind: "compaction"; data: Compaction }
  | { kind: "retry"; data: { attempt: number; max: number; error: string; withdrawn?: string } }
  | { kind: "notice"; data: { title: string; description: string } }
);

/** What this extension wants to be told; the end of a turn is told by the answer to `sidecar/turn/run`. */
export const EVENT_KINDS: readonly SidecarEvent["kind"][] = [
  "textDelta",
  "message",
  "toolStarted",
  "usage",
  "compaction",
  "retry",
  "notice",
];

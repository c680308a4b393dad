// The sidecar protocol, number 1. Written by `sidecar schema --format ts`.
// A choice of words may grow: treat a word that you do not know as one that needs no action.

/** The loaded session to follow, to `observe` it or to `control` it. Every client may read. One that controls the session is asked for permissions, and may act on it: send prompts, stop turns, compact, change options. A client that starts, loads or forks a session controls it. `fromSeq` is the last event that the client has; without it, events are sent from now on. */
export interface AttachParams {
  sid: string;
  mode?: "observe" | "control";
  fromSeq?: number;
}

/** The state of the session; `gap` is the range of requested events that cannot be sent. They are no longer kept; or the client named a number that the log has not reached, so that its events are of another log and `snapshot` replaces them. `controllers` are the names of the clients that may answer its questions, this one included. */
export interface AttachResult {
  snapshot: SessionSnapshot;
  seq: number;
  controllers: string[];
  gap?: EventRange;
}

/** The client that sent a prompt: the id of its connection, and its own name for itself. */
export interface Author {
  clientId: string;
  name: string;
}

/** Four fifths of a budget are spent; it comes once for each prompt, session or day. `usd` and `tokens` are the budget for each `per`, null where it has no such amount. Where the next call would break it, the call is not made, and the turn ends with the stop reason `budget`. */
export interface BudgetNear {
  per: "prompt" | "session" | "day";
  usd: number | null;
  tokens: number | null;
  spentUsd: number;
  spentTokens: number;
}

/** A budget for each `per`, in `usd` dollars, in `tokens` or in both, and its spent part. */
export interface BudgetState {
  per: "prompt" | "session" | "day";
  usd: number | null;
  tokens: number | null;
  spentUsd: number;
  spentTokens: number;
}

/** `accepted` is false for a compaction that has ended, or is being stored. */
export interface CancelResult {
  accepted: boolean;
  seq: number;
}

/** The changes of files to compare: those since a checkpoint began, or all that the session has made. `toNode` asks for the changes that a rewind to this node takes back, of all files, and `compactionId` for the changes that the undo of this compaction takes back. */
export interface CheckpointDiffParams {
  sid: string;
  checkpointId?: string;
  toNode?: string;
  uris?: string[];
  compactionId?: string;
}

/** The files, 200 at most, each from its content before the changes to the present one. `uncovered` names others that may have changed files, such as a command in the background. */
export interface CheckpointDiffResult {
  files: FileDiff[];
  uncovered: string[];
}

/** A file of a checkpoint; `created` when it did not exist before, `problem` says why it was not kept. `renamedFrom` is its URI when it was changed, where the user has renamed it since. */
export interface CheckpointFile {
  uri: string;
  created: boolean;
  problem?: string;
  renamedFrom?: string;
}

/** The checkpoints, oldest first. */
export interface CheckpointListResult {
  checkpoints: FileCheckpoint[];
}

/** The checkpoint to take files back to: `uris`, or every file that the session has changed since. */
export interface CheckpointRestoreParams {
  sid: string;
  checkpointId: string;
  uris?: string[];
}

/** The files that were taken back, and the files that stay as they are; a new checkpoint undoes it. */
export interface CheckpointRestoreResult {
  files: FileRestore[];
  seq: number;
}

/** A process that the daemon started. */
export interface ChildInfo {
  pid: number;
  what: string;
}

/** A connected client; `face` is its protocol. */
export interface ClientInfo {
  id: string;
  name: string;
  face: string;
}

/** The end of the daemon, `inMs` milliseconds from now. */
export interface ClosingNotification {
  reason: string;
  inMs: number;
}

/** A slash command; `hint` describes its arguments. */
export interface CommandInfo {
  name: string;
  description: string;
  hint?: string;
}

/** The slash commands on offer, complete. */
export interface CommandsChanged {
  commands: CommandInfo[];
}

/** The running or queued compaction to stop; the conversation stays as it was. */
export interface CompactCancelParams {
  sid: string;
  compactionId: string;
}

/** The engines to compare; without `engines`, every engine that compacts. With `detail` each plan has its prompt and the ids of the nodes that it drops, which grow with the conversation; `sidecar/compact/preview` always has them. */
export interface CompactCompareParams {
  sid: string;
  engines?: string[];
  mode?: "auto" | "force";
  detail?: boolean;
}

/** One plan for each engine, in the order of the request. */
export interface CompactCompareResult {
  plans: Plan[];
}

/** Every compaction of the session, oldest first, the running one last, and the ids of waiting ones. */
export interface CompactListResult {
  compactions: Compaction[];
  queuedCompactions: string[];
}

/** The compaction to plan. `mode` `auto` plans one only above the threshold, `force` always. `engine` and `policy` replace the session's own for this plan; `instructions` go to the summarizer. */
export interface CompactPreviewParams {
  sid: string;
  engine?: string;
  mode?: "auto" | "force";
  policy?: Record<string, number>;
  instructions?: string;
}

/** The part of a compaction to read: the summary, the turns that it replaced, or the facts in them. The prompt is made again from the stored turns, as the engine is set now. It is empty where no model wrote the summary. Of the facts, `kinds` and `states` choose some. Facts and turns come in pages: `cursor` asks for the next one of at most `limit`, and of at most 1000 in any case. */
export interface CompactReadParams {
  sid: string;
  compactionId: string;
  part?: "summary" | "dropped" | "prompt" | "loss";
  kinds?: ("request" | "outcome" | "modified" | "read" | "command" | "search" | "error")[];
  states?: ("kept" | "shortened" | "line" | "gone")[];
  cursor?: string;
  limit?: number;
}

/** The part as text; `dropped` has a page of its nodes, `loss` one of facts and the counts of all. The text of `dropped` is the number of all its turns. A fact is compared with the view after the compaction, and with the system prompt as it is now. `nextCursor` is absent on the last page. */
export interface CompactReadResult {
  content: string;
  nodes?: NodeView[];
  facts?: ReportedFact[];
  loss?: Loss;
  nextCursor?: string;
}

/** The compaction to run: the previewed plan `planId`, or the one that the other members describe. `expectHead` refuses the compaction when the conversation has moved on. `whenBusy` says whether to wait for the running turn or to refuse. On the LSP face `workDoneToken` gets the progress. */
export interface CompactStartParams {
  sid: string;
  planId?: string;
  engine?: string;
  mode?: "auto" | "force";
  policy?: Record<string, number>;
  instructions?: string;
  expectHead?: string;
  whenBusy?: "afterTurn" | "reject";
  workDoneToken?: string | number;
}

/** The receipt of a compaction; its outcome is a `compaction` event. `disposition` is `noop` when there is nothing to compact, and `reason` says why. */
export interface CompactStartResult {
  compactionId: string;
  disposition: "started" | "queued" | "noop";
  seq: number;
  reason?: string;
}

/** The compaction to take back, the newest one by default. `force` takes it back even when the restored conversation does not fit the window. `files` says whether the files that turns since the compaction have changed stay or are restored, each unless others have changed it since. */
export interface CompactUndoParams {
  sid: string;
  compactionId?: string;
  expectHead?: string;
  force?: boolean;
  files?: "keep" | "restore";
}

/** The new head, and the number of tokens that are back in the conversation. `editedFiles` are the URIs of the files that turns since the compaction edited. `restoredFiles` are empty unless the request asked for them; a file with another outcome stays as it is. */
export interface CompactUndoResult {
  head: string | null;
  restoredTokens: number;
  seq: number;
  editedFiles: string[];
  restoredFiles: FileRestore[];
}

/** One compaction, from its start to its end. `preTokens` and `postTokens` are the size of the next request before and after it, as `used` of the usage tells it at those moments; one that was undone has no `postTokens`. `info` has the engine's counts. With the `trigger` `expand` it is the opposite: originals behind a summary came back into view. `loss` counts the facts of the folded part; it is absent where counting them would have made a turn wait, and `sidecar/compact/read` lists them in any case. `info` holds the numbers of tokens and messages before and after, whether a turn was split, whether an earlier summary was updated, and the engine's own entries. */
export interface Compaction {
  compactionId: string;
  engine: string;
  trigger: "manual" | "auto" | "overflow" | "undo" | "expand";
  status: "in_progress" | "completed" | "noop" | "failed" | "cancelled" | "undone";
  preTokens: number;
  preCount: number;
  droppedCount: number;
  cut: number;
  microcompacted: number;
  beforeHead: string | null;
  undoable: boolean;
  reason?: string;
  postTokens?: number;
  postCount?: number;
  keptFrom?: string;
  rehydrated: string[];
  summarySource?: "model" | "localFallback";
  summary?: string;
  error?: string;
  durationMs?: number;
  afterHead?: string;
  info?: Record<string, unknown>;
  loss?: Loss;
}

/** The conversation, of `used` tokens, is near the `limit` at which it is compacted. It comes once, after a turn, when three quarters of the limit are reached. The instructions of `/compact` and `sidecar/compact/start` steer the summary; else it is made when due. With `prepared` it is written from now on, so that no turn waits for all of it. */
export interface CompactionNear {
  used: number;
  limit: number;
  window: number;
  prepared: boolean;
}

/** More of the summary while a model writes it, in passages. A model that is asked again writes anew; the summary that counts stands in the `compaction` event. */
export interface CompactionSummaryDelta {
  compactionId: string;
  delta: string;
}

/** A prompt that is being typed, and the `position` of the cursor in it, in units of `encoding`. Paths belong to the folder of the session `sid`, or to the folder `cwd` before there is a session. */
export interface CompleteParams {
  text: string;
  position: number;
  sid?: string;
  cwd?: string;
  encoding?: "utf-8" | "utf-16" | "utf-32";
  limit?: number;
}

/** The completions, the best first. With `isIncomplete` there are more, or the files are still read. */
export interface CompleteResult {
  items: CompletionItem[];
  isIncomplete: boolean;
}

/** One completion: `insertText` replaces the text from `start` up to `end`. `kind` is `command`, `argument` of one, `file`, `folder` or `mention`. */
export interface CompletionItem {
  kind: "command" | "argument" | "file" | "folder" | "mention";
  label: string;
  insertText: string;
  start: number;
  end: number;
  detail?: string;
}

/** The session's config options, complete. */
export interface ConfigChanged {
  configOptions: ConfigOption[];
}

/** One value of a config option. */
export interface ConfigChoice {
  value: string;
  name: string;
}

/** One config option of a session, in the shape of the Agent Client Protocol. */
export interface ConfigOption {
  id: string;
  name: string;
  category: string;
  currentValue: string;
  options: ConfigChoice[];
  type: "select";
}

/** The nodes to leave out of the conversation; a tool call and its results go together. `expectHead` is the head that the client saw; null accepts any. */
export interface ContextDropParams {
  sid: string;
  nodeIds: string[];
  expectHead: string | null;
}

/** The new head and the dropped nodes; `sidecar/session/rewind` to the former head restores them. */
export interface ContextDropResult {
  head: string | null;
  dropped: string[];
  tokensFreed: number;
  seq: number;
}

/** The turns behind a summary that the model is to see again, as they were said. `compactionId` names the summary, the one that stands by default. Without nodes all turns come back; `nodeIds` or a range `fromNode` to `toNode` choose some, tool calls with their results. */
export interface ContextExpandParams {
  sid: string;
  compactionId?: string;
  nodeIds?: string[];
  fromNode?: string;
  toNode?: string;
  expectHead?: string;
}

/** The new head, and the number of turns and of tokens that are back. `sidecar/compact/undo` with `compactionId` takes the expansion back. */
export interface ContextExpandResult {
  compactionId: string;
  head: string | null;
  expanded: number;
  tokens: number;
  seq: number;
}

/** A file that the model has read: `stale` when it changed since, `inWindow` while the model sees it. `turnsAgo` is the number of prompts since it was read, absent when that is no part of the conversation. */
export interface ContextFile {
  uri: string;
  hash: string;
  source: string;
  readAtNode: string | null;
  tokens: number;
  stale: boolean;
  inWindow: boolean;
  bufferVersion?: number;
  turnsAgo?: number;
}

/** The files that the model has read. */
export interface ContextFilesResult {
  files: ContextFile[];
}

/** The passage to pin: a fact of a loss report, a node on any branch, or a text; or the pin to take away. At most one of them; without any the pins are listed. */
export interface ContextPinParams {
  sid: string;
  factId?: string;
  nodeId?: string;
  text?: string;
  unpin?: string;
}

/** All pins, oldest first, the tokens that they take of the most that they may take, and the added `pin`. The model sees a pin from the next request on. */
export interface ContextPinResult {
  pins: Pin[];
  tokens: number;
  limitTokens: number;
  seq: number;
  pin?: Pin;
}

/** The fill level of the window: `used` is the size of the next request, never a sum over requests. `source` is `provider` when `used` is based on a figure that the provider reported. `pct` is the share of `window` in percent. `limitBy` is `price` where a compaction is due before the window needs it, because later calls save more than it costs. The parts in `by` add up to `used`. With them come `rules`, the rule files that the model is shown, and `factor`, the tokens that its provider counts for one of the estimate, learned from usage. `limitWhy` gives the reason for `limit`, and the setting that moves it. `budgets` come with their spent parts, absent without a budget. */
export interface ContextUsage {
  used: number;
  window: number;
  limit: number;
  pct: number;
  source: "provider" | "estimate";
  asOfNode: string | null;
  engineView: Record<string, EngineView>;
  by?: UsageBy;
  lastTurn?: TokenCounts;
  sessionTotal?: TokenCounts;
  cost?: number;
  rules?: RuleFileUsage[];
  limitBy?: "price";
  factor?: number;
  budgets?: BudgetState[];
  limitWhy?: string;
}

/** The session to measure; `detail` adds the origin of the tokens. */
export interface ContextUsageParams {
  sid: string;
  detail?: boolean;
}

/** The most money, `usd` in dollars, and the most `tokens` for each `per`; one of them may be null. */
export interface CostBudget {
  usd?: number;
  tokens?: number;
  per?: "prompt" | "session" | "day";
}

/** The first turn that is kept; `nodeId` is null while nothing is stored. */
export interface Cut {
  nodeId: string | null;
  index: number;
}

/** A change of a file; `oldText` is null for a new one. */
export interface DiffContent {
  path: string;
  oldText: string | null;
  newText: string;
}

/** The turns that a compaction folds away; `nodes` are their ids, oldest first. */
export interface Dropped {
  count: number;
  tokens: number;
  nodes: string[];
}

/** An edit of open buffers, for a client without `workspace/applyEdit`. `edit` is a WorkspaceEdit of the Language Server Protocol, with versioned `documentChanges`. */
export interface EditApplyParams {
  label: string;
  edit: Record<string, unknown>;
}

/** `applied` is true when the buffers have the edit; a buffer of another version must be left alone. */
export interface EditApplyResult {
  applied: boolean;
}

/** The part of the editor's state that has changed. An absent member stays as it was reported before. `active` is the file that the user looks at; an explicit null says that there is none. `tabs` are all open files. `diagnostics` replace the earlier ones of each file in it, and with `replacesDiagnostics` the earlier ones of all files. A client that has sent `diagnostics` once, even an empty array, provides them: the model is offered a tool for them, and sees new errors of the files that it edits. `positionEncoding` is the unit of characters: the negotiated one on the LSP face unless given, else UTF-16. */
export interface EditorContextParams {
  active?: EditorFile;
  tabs?: EditorTab[];
  diagnostics?: FileDiagnostics[];
  replacesDiagnostics?: boolean;
  positionEncoding?: "utf-8" | "utf-16" | "utf-32";
}

/** One problem, in the shape of the Language Server Protocol; `severity` is 1 (an error) to 4 (a hint). */
export interface EditorDiagnostic {
  range: EditorRange;
  message: string;
  severity?: number;
  code?: string | number;
  source?: string;
}

/** The file that the user looks at. `selections` has the main one first; an empty range is a cursor. `selectedText` is needed only for a text that the daemon cannot read, such as a file that was never saved. */
export interface EditorFile {
  uri: string;
  languageId?: string;
  isDirty?: boolean;
  selections?: EditorRange[];
  selectedText?: string;
  visibleRanges?: EditorRange[];
}

/** A place in a text; `line` and `character` count from 0. */
export interface EditorPosition {
  line: number;
  character: number;
}

/** A question for the language servers of the editor, over the text of its buffers, saved or not. `position` is the place in the file `uri` that `definition`, `references`, `hover`, `rename` and `codeActions` are about, the last one with all of its line; it is in the negotiated unit on the LSP face, else in UTF-16. `text` is the new name of a `rename`, and the words of a search for `workspaceSymbols`; such a search has as `uri` the folder of the session, or a file in its language. */
export interface EditorQueryParams {
  kind: "definition" | "references" | "documentSymbols" | "workspaceSymbols" | "hover" | "rename" | "codeActions";
  uri: string;
  position?: EditorPosition;
  text?: string;
}

/** The answer as the language server gave it; without one there is none, and `problem` may say why. It has the shape of the Language Server Protocol: one or more of Location or LocationLink, DocumentSymbol, SymbolInformation or WorkspaceSymbol; a Hover; a WorkspaceEdit, which is not applied; or code actions, with the edit of each. `positionEncoding` is the unit of its characters, where that is not the unit of the question. */
export interface EditorQueryResult {
  answer?: unknown;
  problem?: string;
  positionEncoding?: "utf-8" | "utf-16" | "utf-32";
}

/** A part of a text, from `start` up to `end`. */
export interface EditorRange {
  start: EditorPosition;
  end: EditorPosition;
}

/** A file that is open in the editor; `isDirty` says that it has unsaved changes. */
export interface EditorTab {
  uri: string;
  isDirty?: boolean;
}

/** The end of a form; `action` is that of the user, `expired`, or `unasked` where it became text. */
export interface ElicitResolvedNotification {
  sid: string;
  elicitationId: string;
  action: string;
  by: string;
}

/** Questions to the user as a form. It counts as not answered after `expiresAt`. `from` is `agent` for the model, or the name of a tool server. `schema` is flat, as the Model Context Protocol has it for elicitation: texts, numbers, booleans, one of several choices, or some of them. With `url` the user is asked to open that address, and the form has no fields: clients show the address and never open it by themselves. `toolCallId` is the call that asks, where that is known. `child` is the sub-agent that asks, where the client follows its parent alone; then the session and the call are the ones of the parent. */
export interface Elicitation {
  sid: string;
  turnId: string | null;
  elicitationId: string;
  from: string;
  message: string;
  schema: Record<string, unknown>;
  expiresAt: number;
  toolCallId?: string;
  url?: string;
  child?: string;
}

/** The user's answer: `accept` with the fields of the form, `decline`, or `cancel` to dismiss it. An answer that does not fit the form counts as none. */
export interface ElicitationAnswer {
  action: string;
  content?: Record<string, unknown>;
}

/** No members. */
export interface Empty {
}

/** The reading of an engine's own meter: `used` of `limit` tokens. */
export interface EngineView {
  used: number;
  limit: number;
}

/** One event of a session; `kind` decides the shape of `data`. `seq` counts from 1 and goes on across restarts. No number is ever used for two events: after a crash the count goes on far above the last one. It is 0 for past events that a load sends again. */
export interface EventNotification {
  sid: string;
  seq: number;
  at: number;
  kind: string;
  data: Record<string, unknown>;
  turnId?: string;
}

/** A range of event numbers, both ends included. */
export interface EventRange {
  from: number;
  to: number;
}

/** The extensions of a session by the user, its folder and its clients, read anew. `problems` are sentences about files and settings that are left out, such as the hooks of a folder that is not trusted. */
export interface ExtensionListResult {
  commands: ListedCommand[];
  skills: ListedSkill[];
  hooks: ListedHook[];
  servers: ListedServer[];
  problems: string[];
}

/** The turn failed; always the last event of its turn. */
export interface Faulted {
  turnId: string;
  kind: string;
  message: string;
  head: string | null;
  usage: ContextUsage;
  durationMs: number;
}

/** The files that a turn or a restore changed, as they were before its first change of each. */
export interface FileCheckpoint {
  checkpointId: string;
  at: number;
  cause: "turn" | "restore";
  files: CheckpointFile[];
  turnId?: string;
}

/** Every problem of one file, none where `diagnostics` is empty; `version` is that of its buffer. */
export interface FileDiagnostics {
  uri: string;
  diagnostics: EditorDiagnostic[];
  version?: number;
}

/** The changes of a file since it was kept, as a unified diff, empty where there is no text to compare. It has the changes by others as well. `outcome` is the outcome that a restore would have now. `truncated` says that lines are missing. */
export interface FileDiff {
  uri: string;
  outcome: "restored" | "removed" | "unchanged" | "changedSince" | "notKept" | "outside";
  diff: string;
  truncated: boolean;
  reason?: string;
}

/** A stale file is no longer stale: it has its old text again, was read again, or is forgotten. */
export interface FileFresh {
  uri: string;
}

/** A file that a restore takes back, or leaves as it is. `outcome` is `restored`; `removed` for a file that the session had created; or, where the file stays as it is, `unchanged` (it has that content already), `changedSince` (others have changed it), `notKept` or `outside` (of the session's folders). `reason` says more. */
export interface FileRestore {
  uri: string;
  outcome: "restored" | "removed" | "unchanged" | "changedSince" | "notKept" | "outside";
  reason?: string;
}

/** A file changed after the model had read it; `nowHash` is null when it was deleted. */
export interface FileStale {
  uri: string;
  readHash: string;
  nowHash: string | null;
  source: string;
}

/** The watched files that may have changed, in an editor or on disk; a folder stands for its contents. */
export interface FsChangedNotification {
  sid: string;
  watchId: string;
  uris: string[];
}

/** The watch to end; it must belong to this client. */
export interface FsUnwatchParams {
  watchId: string;
}

/** The files of the session's folders to watch, as globs. */
export interface FsWatchParams {
  sid: string;
  globs: string[];
}

/** The watch, which sends `sidecar/fs/changed` until the session is closed. `backend` is `client`, `watchfiles` or `none`, as in `sidecar/status`. */
export interface FsWatchResult {
  watchId: string;
  backend: string;
}

/** A range of events that this client will not get. `reason` is `slowClient` when it read too slowly, or `notKept` when they are no longer stored. */
export interface GapNotification {
  sid: string;
  from: number;
  to: number;
  reason: string;
}

/** Whether the next request is over the engine's limit. */
export interface Gate {
  tokens: number;
  limit: number;
  window: number;
  over: boolean;
}

/** The head moved by a rewind or a drop; `removed` are the nodes that left the conversation. `editedFiles` are the URIs of the files that those nodes edited; the files stay as they are. */
export interface HeadChanged {
  head: string | null;
  removed: string[];
  cause: "rewind" | "drop";
  editedFiles: string[];
}

/** Source code, and its `language`; without one the name of the file `path` tells it. */
export interface HighlightParams {
  text: string;
  path?: string;
  language?: string;
}

/** The parts in their order; none of an unknown language, or of more than 100,000 characters. */
export interface HighlightResult {
  runs: HighlightRun[];
}

/** A part of the text with its kind; `start` and `length` are in UTF-16 units. */
export interface HighlightRun {
  start: number;
  length: number;
  kind: "keyword" | "string" | "comment" | "number" | "name";
}

/** The answer about one hunk of a proposed change. `diff` and `hunk` are its indices in the diffs of the question and in the `hunks` of that diff. With `text` it is kept as the user has edited it. */
export interface HunkAnswer {
  diff: number;
  hunk: number;
  accepted: boolean;
  text?: string;
}

/** A repair or an omission: its reason, how often it happened, and a sentence about it. */
export interface ImportNote {
  reason: string;
  count: number;
  message: string;
}

/** A session of another agent on this machine. `id` is the agent's own; `cwd` and `title` are empty where they are not known; `updatedAt` is the time of the last change of its file. */
export interface ImportableSession {
  source: string;
  id: string;
  path: string;
  cwd: string;
  title: string;
  updatedAt: number;
  sizeBytes: number;
}

/** The session's title or place in the list changed. */
export interface InfoChanged {
  title: string;
  updatedAt: number;
  archived: boolean;
}

/** The state of the stored files: `repaired` parts were restored, `missing` parts are lost. */
export interface Integrity {
  ok: boolean;
  repaired: string[];
  missing: string[];
}

/** The turn to stop, by default the running one; `queue` decides about the waiting prompts. */
export interface InterruptParams {
  sid: string;
  turnId?: string;
  queue?: "keep" | "drop" | "return";
}

/** `accepted` is true when there was such a turn; `returned` has the prompts taken out of the queue. */
export interface InterruptResult {
  accepted: boolean;
  seq: number;
  returned?: Record<string, unknown>[][];
}

/** The turns that a compaction leaves unchanged. */
export interface Kept {
  count: number;
  tokens: number;
}

/** The facts of one kind that a compaction folded away, by their state. */
export interface KindLoss {
  kind: "request" | "outcome" | "modified" | "read" | "command" | "search" | "error";
  kept: number;
  shortened: number;
  gone: number;
  line?: number;
}

/** A command from a Markdown file; one that is not `trusted` asks before its first use. */
export interface ListedCommand {
  name: string;
  description: string;
  hint: string | null;
  model: string | null;
  uri: string;
  source: "user" | "folder";
  trusted: boolean;
}

/** A hook: its event, its command with secrets masked, and the tools that it is about, none for all. */
export interface ListedHook {
  event: string;
  command: string;
  tools: string[];
  source: "user" | "folder";
}

/** A model on offer; `model` is its value of the config option. `source` is `configured` in the settings, `discovered` on a server of this machine, `published` in the list of a provider, or `builtIn`. `contextWindow` is 0 until it is known, `price` is left out where it is not, and `whyNot` says why the model cannot be called now. A missing key shows only when it is called. */
export interface ListedModel {
  model: string;
  name: string;
  source: "configured" | "discovered" | "published" | "builtIn";
  provider?: string;
  contextWindow: number;
  maxOutputTokens: number;
  reasoning: boolean;
  images: boolean;
  price?: ModelPrice;
  whyNot?: string;
}

/** A tool server: whether it runs now, its number of tools, and why it does not run. The `source` of one that a client named is `client`. */
export interface ListedServer {
  name: string;
  source: "user" | "folder" | "client";
  state: "starting" | "running" | "restarting" | "failed";
  tools: number;
  problem?: string;
}

/** A skill; `uri` is its `SKILL.md`. */
export interface ListedSkill {
  name: string;
  description: string;
  uri: string;
  source: "user" | "folder";
}

/** One line of the daemon's log, without prompts, file contents or keys; `line` counts from 1. */
export interface LogLine {
  line: number;
  at: number;
  level: string;
  logger: string;
  text: string;
}

/** The lines to read: from number `fromLine` on, by default the newest, of `level` and above. With `session` only lines that name this session are read. */
export interface LogTailParams {
  fromLine?: number;
  level?: "info" | "warning" | "error";
  session?: string;
}

/** The lines, oldest first; `next` is the `fromLine` of the next request. */
export interface LogTailResult {
  lines: LogLine[];
  next: number;
}

/** The facts that stood in the folded part of a conversation, each counted once. The model still sees the `kept` ones whole, the `shortened` ones in part, and of each in `line` that it was there. `share` is the part of the folded text that it sees, from 0 to 1. `mended` is the number of lines that were dropped from a model's summary because they could not be true. */
export interface Loss {
  kept: number;
  shortened: number;
  gone: number;
  mended: number;
  kinds: KindLoss[];
  line?: number;
  share?: number;
}

/** A server of the Model Context Protocol; its tools stand beside the daemon's own. A server of type `stdio` is started as a process and needs `command`: an absolute path, or a program in the daemon's path. The other types need `url`; `sse` is the older transport over HTTP. */
export interface McpServerConfig {
  name: string;
  type?: "stdio" | "http" | "sse";
  command?: string;
  args?: string[];
  env?: NamedValue[];
  url?: string;
  headers?: NamedValue[];
}

/** One finished answer of the model, whole. */
export interface Message {
  messageId: string;
  content: Record<string, unknown>[];
}

/** The old tool results that are blanked in the kept turns, and the tokens that this frees. */
export interface Microcompact {
  blanked: number;
  tokens: number;
}

/** The models of the settings, of providers with a key, of servers that answer, and the built-in one. `current` is the session's own. Any other `provider:model` may be chosen as well. */
export interface ModelListResult {
  models: ListedModel[];
  current: string;
}

/** The prices of a model, in US dollars for a million tokens. */
export interface ModelPrice {
  input: number;
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
}

/** An environment variable or a header. */
export interface NamedValue {
  name: string;
  value: string;
}

/** The reason why a compaction does nothing. */
export interface NoOp {
  reason: string;
}

/** One stored turn; `blocks` are its content blocks as JSON. */
export interface NodeView {
  id: string;
  parent: string | null;
  role: string;
  blocks: Record<string, unknown>[];
  createdAt: number;
}

/** A message for the user. The `kind` `budget` is about a budget that has stopped the turn, and `priceUnknown` about a model that a budget in dollars cannot count. Other messages have none. */
export interface Notice {
  severity: "info" | "warning" | "error";
  title: string;
  description: string;
  kind?: "budget" | "priceUnknown";
}

/** The user's answer; anything but `selected` with a known option counts as a rejection. With an option that allows a change, `hunks` names the hunks that are refused or edited; the others are kept as they were proposed. The model is told which. */
export interface PermissionAnswer {
  outcome: string;
  optionId?: string;
  hunks?: HunkAnswer[];
}

/** A rule to add to the user's settings, or with `remove` to take out of them. A rule is the beginning of a command, such as `git push` or `npm run *`, or `edit: docs/**`, `fetch: HOST` or `mcp: SERVER TOOL`. */
export interface PermissionChange {
  effect: "allow" | "deny";
  rule: string;
  remove?: boolean;
}

/** One answer that the user may choose. */
export interface PermissionOption {
  optionId: string;
  name: string;
  kind: "allow_once" | "allow_always" | "reject_once";
}

/** A question to the user. Without an answer by `expiresAt` it counts as rejected. `child` is the sub-agent that asks, where the client follows its parent alone; then the session and the tool call are the ones of the parent. */
export interface PermissionRequest {
  sid: string;
  turnId: string | null;
  permissionId: string;
  title: string;
  subject: PermissionSubject;
  options: PermissionOption[];
  expiresAt: number;
  description?: string;
  child?: string;
}

/** The end of a question; `outcome` is the chosen option, `expired` or `cancelled`. */
export interface PermissionResolvedNotification {
  sid: string;
  permissionId: string;
  outcome: string;
  by: string;
}

/** A rule that holds in a session; `rule` is as the settings write it, `description` says it in words. */
export interface PermissionRule {
  effect: "allow" | "ask" | "deny";
  rule: string;
  source: "user" | "session" | "turn" | "workspace" | "builtIn";
  description: string;
}

/** The session. Without `test` and `set` its rules are listed; each answer has the list. */
export interface PermissionRulesParams {
  sid: string;
  test?: PermissionTest;
  set?: PermissionChange;
}

/** The rules in the order in which they decide, and the `verdict` on the call of `test`. A change holds in every session at once. It is stored in the user's own settings and never in a folder. */
export interface PermissionRulesResult {
  mode: string;
  rules: PermissionRule[];
  seq: number;
  verdict?: PermissionVerdict;
}

/** The subject of a question; `type` is `toolCall`, `command` or `path`. `detail` is for reading: hidden characters stand in it as numbers, and long runs of blanks are counted. */
export interface PermissionSubject {
  type: string;
  toolCallId: string;
  tool: string;
  detail: string;
  diffs: Record<string, unknown>[];
}

/** A call to judge without running it: the `tool` and its `input`, such as `bash` and `{command}`. */
export interface PermissionTest {
  tool: string;
  input: Record<string, unknown>;
}

/** The answer to an action that was not run: whether it would be allowed, asked or denied, and why. `rule` is the rule of the user or of the turn that decides, absent where none does. `always` is the scope of an answer "always". */
export interface PermissionVerdict {
  outcome: "allow" | "ask" | "deny";
  reason: string;
  rule?: PermissionRule;
  always?: string;
}

/** The session moved into another phase. */
export interface Phase {
  phase: string;
}

/** A text that the model sees word for word in each request; `nodeId` is its node, null for none. The pin of a fact has the id of the fact. */
export interface Pin {
  pinId: string;
  text: string;
  nodeId?: string;
}

/** The pins of the session, complete. */
export interface PinsChanged {
  pins: Pin[];
}

/** The plan of a compaction, made without a model call. `preTokens` is the size of the next request as its usage tells it: the sum of `dropped`, `kept`, the system prompt and the tools. `loss` is that of a compaction without a model. */
export interface Plan {
  planId: string;
  expectHead: string | null;
  engine: string;
  gate: Gate;
  cut?: Cut;
  preTokens?: number;
  dropped?: Dropped;
  kept?: Kept;
  microcompact?: Microcompact;
  rehydrate: RehydrateCandidate[];
  projected?: Projected;
  noop?: NoOp;
  prompt?: string;
  loss?: Loss;
}

/** The model's todo list, complete. */
export interface PlanChanged {
  entries: PlanItem[];
}

/** One line of the model's todo list. */
export interface PlanItem {
  content: string;
  status: string;
  priority: string;
}

/** The size of the next request after the compaction, in tokens. `tokens` is an estimate, `pct` its share of the window in percent. The length of the summary decides, from `low` to `high`. Where `high` is that of the gate, a long summary would save nothing, and nothing changes. */
export interface Projected {
  tokens: number;
  pct: number;
  low: number;
  high: number;
}

/** A form is over: the user's `action`, `accept`, `decline` or `cancel`; or another end. That is `expired` where nobody answered in time, and `unasked` where no client could show it, so that it stands in the conversation as text. `by` is the client that decided. */
export interface QuestionResolved {
  elicitationId: string;
  action: string;
  by: string;
}

/** The next 16 of the `total` prompts that wait, each text in them cut to 1,000 characters. `sidecar/queue/list` has all of them, whole. `queuedCompactions` are the ids of the compactions that wait; `sidecar/compact/cancel` stops one. */
export interface QueueChanged {
  items: QueueItem[];
  total: number;
  queuedCompactions: string[];
}

/** The number of unanswered requests, and the number of bytes waiting to be sent. */
export interface QueueCounts {
  in: number;
  outBytes: number;
}

/** The waiting prompt and its new content. */
export interface QueueEditParams {
  sid: string;
  itemId: string;
  input: Record<string, unknown>[];
}

/** A prompt that waits; `input` is its content as the client wrote it. */
export interface QueueItem {
  itemId: string;
  turnId: string;
  input: Record<string, unknown>[];
}

/** The waiting prompt to remove; its turn ends as cancelled. */
export interface QueueRemoveParams {
  sid: string;
  itemId: string;
}

/** The waiting prompts, and the ids of the compactions that wait; the next one first. */
export interface QueueResult {
  items: QueueItem[];
  seq: number;
  queuedCompactions: string[];
}

/** A file that would be restored; `stale` when it changed after the model had read it. */
export interface RehydrateCandidate {
  uri: string;
  tokens: number;
  stale: boolean;
}

/** The files to restore: `uris` that the model has read, or all that have changed since. `budget` is the most tokens to add. The limit of the engine holds in any case. */
export interface RehydrateParams {
  sid: string;
  uris?: string[];
  budget?: number;
}

/** The files that would be restored; `missing` has a reason for each of the others. */
export interface RehydratePreviewResult {
  files: RestoredFile[];
  missing: string[];
  tokens: number;
}

/** The restored files, added behind the conversation; a rewind removes them again. */
export interface RehydrateRunResult {
  files: RestoredFile[];
  missing: string[];
  tokens: number;
  head: string | null;
  seq: number;
}

/** Files were restored into the conversation with their current text. */
export interface Rehydrated {
  files: RestoredFile[];
  missing: string[];
}

/** One fact of a loss report; `nodeId` is the node that holds it, on the branch before the compaction. `factId` is the same in every report of a session. `place` is the place of the node in the chronicle. A text is cut to 2,000 characters. */
export interface ReportedFact {
  factId: string;
  kind: "request" | "outcome" | "modified" | "read" | "command" | "search" | "error";
  state: "kept" | "shortened" | "line" | "gone";
  text: string;
  nodeId: string;
  pinned: boolean;
  place?: number;
}

/** A file that was restored into the conversation, as it was at that moment. */
export interface RestoredFile {
  uri: string;
  hash: string;
  source: string;
  tokens: number;
}

/** A model call failed and is repeated after `delayMs`. `withdrawn` is the id of the message that the call had begun, null for none. Its deltas do not count any more, and the answer comes under another id. */
export interface Retry {
  attempt: number;
  max: number;
  delayMs: number;
  error: string;
  withdrawn?: string;
}

/** The rule to set, at most 2,000 characters; the model is told with the next prompt. */
export interface RuleAddParams {
  sid: string;
  text: string;
}

/** The rules that were proposed, as they are now; a `rulesChanged` event has all that hold. */
export interface RuleDecisionResult {
  rules: SessionRule[];
  seq: number;
}

/** The proposed rule to dismiss: its id, or words that only one has; all proposed rules without `rule`. */
export interface RuleDismissParams {
  sid: string;
  rule?: string;
}

/** One rule file, such as `AGENTS.md`, and the tokens that it takes. `scope` is `user` for a file in the state directory, `project` for one from the root of the repository to the session's folder, and `folder` for one further down. `inSystem` says whether it is in the system prompt; else a result in the conversation shows it. `cutChars` counts the characters not shown. */
export interface RuleFileUsage {
  uri: string;
  scope: "user" | "project" | "folder";
  inSystem: boolean;
  tokens: number;
  sizeBytes: number;
  cutChars: number;
}

/** The proposed rule to keep: its id, or words that only one has; all proposed rules without `rule`. */
export interface RuleKeepParams {
  sid: string;
  rule?: string;
}

/** The session; with `all` also the rules that were taken back. */
export interface RuleListParams {
  sid: string;
  all?: boolean;
}

/** The rules of the user, oldest first. */
export interface RuleListResult {
  rules: SessionRule[];
}

/** The rule to take back: its id, or words that only one rule has. */
export interface RuleRemoveParams {
  sid: string;
  rule: string;
}

/** The rule as it is now; a `rulesChanged` event has all that hold. */
export interface RuleResult {
  rule: SessionRule;
  seq: number;
}

/** The words that took a rule back; without `text` it was withdrawn by hand. */
export interface RuleRevocation {
  source: "user" | "summary";
  at: number;
  text?: string;
  node?: string;
}

/** The user's rules that hold, complete. */
export interface RulesChanged {
  rules: SessionRule[];
}

/** The form of the description: JSON Schema, TypeScript, or this page in Markdown. With the `face` `acp` the names of the methods in the schema have the underscore of that face. */
export interface SchemaParams {
  format?: "jsonschema" | "ts" | "markdown";
  face?: "lsp" | "acp";
}

/** The description; `hash` is the `schemaHash` of the handshake, the same for every form. */
export interface SchemaResult {
  text: string;
  hash: string;
}

/** The number of the newest event of a session that was changed or closed. */
export interface SeqResult {
  seq: number;
}

/** A command of the user, in the turn of the event, leads to another session: `sid`. The client that sent the command shows that session from now on, if it can. */
export interface SessionChosen {
  sid: string;
}

/** The number of sessions in memory, and of those at work. */
export interface SessionCounts {
  loaded: number;
  running: number;
}

/** The session to delete; `force` is needed for one that another client has open. */
export interface SessionDeleteParams {
  sid: string;
  force?: boolean;
}

/** The conversation to export: as Markdown, as one node a line, or as one JSON object. `claude-code` and `codex` are the forms of these agents, which can go on with the file. `view` is that of `sidecar/session/read`; for another agent, `"full"` is the whole conversation of the current branch, with its compactions where they happened. `path` is the absolute path of a new file; without it the text is in the result. An existing file is never overwritten. */
export interface SessionExportParams {
  sid: string;
  format?: "markdown" | "jsonl" | "json" | "claude-code" | "codex";
  view?: "active" | "full" | Record<string, string>;
  path?: string;
}

/** The text, or the path of the written file. */
export interface SessionExportResult {
  path?: string;
  text?: string;
}

/** The session to copy, up to `atNode` or up to its head; it need not be loaded. `cwd` and `roots` replace its folders, and `brief` its text for the system prompt. Without `mcpServers` the new session takes the servers of a session that is in memory. */
export interface SessionForkParams {
  sid: string;
  atNode?: string;
  title?: string;
  cwd?: string;
  roots?: string[];
  mcpServers?: McpServerConfig[];
  brief?: string;
}

/** The session to import: the absolute `path` of its file, or the `id` of a listed one, or its beginning. A database needs both. `source` is the agent, recognised where it is absent: `claude-code`, `codex`, `pi`, `opencode`, `copilot-cli`, `gemini-cli`, `cline` or `aider`; `openhands` reads runs of OpenHands and `chat` reads messages with roles. `cwd` is the folder to go on in, by default the recorded one, which must exist. `model` and `engine` are chosen as for a new session. On the LSP face `workDoneToken` gets the progress. With `listOnly` nothing is imported: the sessions of this machine are listed, all or only of one `source`, and at most `limit`. The history of aider is found in `cwd` and in the folders of the stored sessions. */
export interface SessionImportParams {
  source?: string;
  path?: string;
  id?: string;
  listOnly?: boolean;
  limit?: number;
  cwd?: string;
  title?: string;
  model?: string;
  engine?: string;
  workDoneToken?: string | number;
}

/** The report on an imported session. `entries` has the number of entries of each kind, on all branches. `reads` counts the file contents that the model has seen whole, `compactions` the compactions of the other agent. `notes` is empty where nothing was repaired or left out. */
export interface SessionImportReport {
  source: string;
  title: string;
  cwd: string;
  tokens: number;
  entries: Record<string, number>;
  reads: number;
  compactions: number;
  notes: ImportNote[];
}

/** The id of the new session, which is stored and not loaded, and a report; or the listed `sessions`. They are listed newest first. */
export interface SessionImportResult {
  sid?: string;
  report?: SessionImportReport;
  sessions?: ImportableSession[];
}

/** The sessions to list: of folder `cwd`, with `query` in the title, with `content`; each is optional. `content` are words that all stand in the conversation, its compacted turns included. `archived` includes archived sessions; `cursor` asks for the sessions behind the page that had it. `children` includes the sessions of sub-agents, and with `parent` only the sub-agents of that session are listed. */
export interface SessionListParams {
  cwd?: string;
  query?: string;
  archived?: boolean;
  cursor?: string;
  limit?: number;
  content?: string;
  children?: boolean;
  parent?: string;
}

/** The sessions, newest first; `nextCursor` is absent on the last page. */
export interface SessionListResult {
  sessions: SessionSummary[];
  nextCursor?: string;
}

/** The stored session, and the part of its past to send again after the result. `cwd` and `roots` replace its folders if it is not in memory yet. `replay` is `"none"`, `"full"`, `{"fromSeq": n}` or `{"lastTurns": n}`. Behind each turn of a past that was stopped, failed or broke off with its daemon comes its `settled` or `faulted`, with the head and the usage of now. `mcpServers` are added to its tool servers. The way to start them is not stored, so a session that was not in memory has only the servers of this request. `brief` replaces its text for the system prompt. */
export interface SessionLoadParams {
  sid: string;
  cwd?: string;
  roots?: string[];
  replay?: "none" | "full" | Record<string, number>;
  mcpServers?: McpServerConfig[];
  brief?: string;
}

/** The state of the loaded session. */
export interface SessionLoadResult {
  snapshot: SessionSnapshot;
  configOptions: ConfigOption[];
  usage: ContextUsage;
  integrity: Integrity;
  seq: number;
}

/** The new session. `cwd` is an absolute folder; `roots` are further folders for the tools. `policy` overrides thresholds of the engine: `triggerRatio`, a share of the window from 0 to 1, `keepRecent`, in tokens and with engine `runtime` in turns, and `reserveTokens`; for `slidingWindow` also `maxEvents`; for `summarizing` also `tier1Ratio`, `tier2Ratio`, `truncateChars`, `summaryMaxTokens` and `minEvents`. Other names are refused. `knowledge` names sources that are searched for each prompt: `workspace` has the files of the session's folders, `sessions` the earlier conversations in `cwd`. The `mcpServers` start in the background; a prompt that comes at once waits for them for at most ten seconds. `brief` is a text of at most 20,000 characters, appended to the system prompt of every call. */
export interface SessionNewParams {
  cwd: string;
  roots?: string[];
  title?: string;
  model?: string;
  engine?: string;
  policy?: Record<string, number>;
  knowledge?: string[];
  ephemeral?: boolean;
  parent?: string;
  mcpServers?: McpServerConfig[];
  brief?: string;
}

/** The new session, its options and its usage; its events follow this answer. */
export interface SessionNewResult {
  sid: string;
  snapshot: SessionSnapshot;
  configOptions: ConfigOption[];
  usage: ContextUsage;
  seq: number;
}

/** The stored session and the view of it to read. `view` is `"active"` for the current branch, `"full"` for all nodes, or `{"compactionId": id, "at": "before"}` for the branch around a compaction; `at` is `"before"` or `"after"`, and `"before"` by default. After a compaction that was undone means the conversation as the undo left it. */
export interface SessionReadParams {
  sid: string;
  view?: "active" | "full" | Record<string, string>;
  cursor?: string;
  limit?: number;
}

/** The nodes, oldest first; `nextCursor` is absent on the last page. */
export interface SessionReadResult {
  nodes: NodeView[];
  nextCursor?: string;
}

/** The session and its new title. */
export interface SessionRenameParams {
  sid: string;
  title: string;
}

/** The new end of the conversation: `toNode` on any branch, or null for an empty conversation. `expectHead` is the head that the client saw; null accepts any. `files` says whether the files that the turns taken back have changed stay or are restored, each unless others have changed it since. */
export interface SessionRewindParams {
  sid: string;
  toNode: string | null;
  expectHead: string | null;
  files?: "keep" | "restore";
}

/** The new head and the nodes that left the conversation, which stay stored. The head differs from the requested node when a tool call had to be completed with its result. `editedFiles` are the URIs of the files that those nodes edited. `restoredFiles` are empty unless the request asked for them; a file that it does not name, or with another outcome, stays as it is. */
export interface SessionRewindResult {
  head: string | null;
  undone: string[];
  seq: number;
  editedFiles: string[];
  restoredFiles: FileRestore[];
}

/** A rule of the user, word for word. `node` is the prompt that it is quoted from, and `quote` its words there; a rule set by hand has neither. While `proposed` the user has neither kept nor dismissed it: it holds, and the user is asked. It holds `since` that time. Once it was taken back `holds` is false, and `revokedBy` has the words that did it. `conflicts` are later words of the user that may have done so; it is not clear, and both stand. */
export interface SessionRule {
  id: string;
  text: string;
  source: "user" | "summary" | "found";
  since: number;
  node?: string;
  quote?: string;
  proposed: boolean;
  holds: boolean;
  revokedBy?: RuleRevocation;
  conflicts: string[];
}

/** A session at one moment: a client shows this, then follows the events after `seq`. `turnId` and `compactionId` name the turn and the compaction that run now, null for none; `queuedCompactions` name the ones that wait. `parent`, `kind`, and `state` to `text` are as in the list of sessions. `openQuestions` are the forms that wait for an answer. */
export interface SessionSnapshot {
  sid: string;
  cwd: string;
  roots: string[];
  title: string;
  model: string;
  engine: string;
  phase: string;
  head: string | null;
  messages: number;
  seq: number;
  createdAt: number;
  updatedAt: number;
  turnId?: string;
  compactionId?: string;
  queue: QueueItem[];
  queuedCompactions: string[];
  parent?: string;
  archived: boolean;
  ephemeral: boolean;
  plan: PlanItem[];
  state: "idle" | "working" | "waiting" | "failed";
  since: number;
  waitingFor?: "permission" | "question" | "budget";
  text?: string;
  openQuestions: Elicitation[];
  kind?: "subagent";
}

/** One line of a session list; `host` and `pid` have it open elsewhere, until `lease` at least. `state` is `waiting` while the session waits for its user, and `waitingFor` is the decision then. `text` is the question, the prompt at work or the failure; `since` is the time at which that began. All are absent where another process has the session open and alone knows them. `parent` is the session that this one was forked from. With the `kind` `subagent` it is the session of the call `toolCallId` that began this one, and `task` is the state of that work. */
export interface SessionSummary {
  sid: string;
  cwd: string;
  title: string;
  updatedAt: number;
  phase: string;
  messages: number;
  tokens: number;
  lastCompactionAt?: number;
  archived: boolean;
  host?: string;
  pid?: number;
  lease?: number;
  state?: "idle" | "working" | "waiting" | "failed";
  since?: number;
  waitingFor?: "permission" | "question" | "budget";
  text?: string;
  parent?: string;
  kind?: "subagent";
  toolCallId?: string;
  task?: "running" | "completed" | "failed" | "interrupted";
}

/** The nodes of all branches, oldest first; `leaves` are the last nodes of the branches. */
export interface SessionTreeResult {
  nodes: TreeNode[];
  head: string | null;
  leaves: string[];
}

/** The result of `sidecar/session/list` has changed: the lines that are new or others, and `removed`. It comes as often as a session begins to work, waits for its user, settles or fails. Without any line, as for a client that reads too slowly, the list has to be requested again. */
export interface SessionsChangedNotification {
  sessions: SessionSummary[];
  removed: string[];
}

/** The option to set: `model`, `engine`, `knowledge`, `thinking` or `permissions`. */
export interface SetConfigOptionParams {
  sid: string;
  configId: string;
  value: string;
}

/** All options of the session after the change. */
export interface SetConfigOptionResult {
  configOptions: ConfigOption[];
  seq: number;
}

/** The turn is over; always the last event of its turn. */
export interface Settled {
  turnId: string;
  stopReason: "end_turn" | "max_tokens" | "refusal" | "cancelled" | "budget";
  head: string | null;
  usage: ContextUsage;
  durationMs: number;
}

/** The session, by its id. */
export interface SidParams {
  sid: string;
}

/** The state of the daemon; `queues` is measured at this moment, `rssBytes` at most a second earlier. */
export interface StatusResult {
  pid: number;
  version: string;
  uptimeMs: number;
  clients: ClientInfo[];
  sessions: SessionCounts;
  queues: QueueCounts;
  rssBytes: number;
  watch: WatchInfo;
  children: ChildInfo[];
  lastErrors: string[];
}

/** A sub-agent of the call `toolCallId` began or ended; `child` is its session. `usage` is that of the child: its size, and all that it has used. */
export interface SubagentChanged {
  child: string;
  toolCallId: string;
  title: string;
  state: "running" | "completed" | "failed" | "interrupted";
  usage?: ContextUsage;
}

/** More of the answer `messageId`; the `message` event holds all of it. */
export interface TextDelta {
  messageId: string;
  delta: string;
}

/** More of the reasoning in `messageId`; the `message` event holds all of it. */
export interface ThinkingDelta {
  messageId: string;
  delta: string;
}

/** The tokens of one call, or the sum over many calls, as the provider reported them. */
export interface TokenCounts {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

/** A tool call has its one result; `isCancelled` is True where the call was cancelled, else absent. */
export interface ToolFinished {
  toolCallId: string;
  name: string;
  title: string;
  kind: string;
  content: unknown;
  isError: boolean;
  locations: ToolLocation[];
  diffs: DiffContent[];
  isCancelled?: boolean;
}

/** A file a tool works on; `line` counts from 1. */
export interface ToolLocation {
  path: string;
  line?: number;
}

/** A tool has more to show while it runs. */
export interface ToolProgress {
  toolCallId: string;
  content: string;
}

/** A tool call begins. */
export interface ToolStarted {
  toolCallId: string;
  name: string;
  title: string;
  kind: string;
  input?: unknown;
  locations: ToolLocation[];
}

/** The level of the trace for all clients: nothing, the passing messages, or also redacted content. `toFile` is the absolute path of a new file, or of one that this daemon has traced to. By default a new file is made in the state directory. */
export interface TraceSetParams {
  level: "off" | "messages" | "verbose";
  toFile?: string;
}

/** The path of the trace; absent when tracing is off. */
export interface TraceSetResult {
  path?: string;
}

/** One node of a session; `tokens` is an estimate. */
export interface TreeNode {
  id: string;
  parent: string | null;
  kind: "user" | "assistant" | "tool" | "summary" | "file" | "branch" | "shell" | "note";
  tokens: number;
  at: number;
}

/** The prompt. `input` is a list of content blocks (text, resource_link, resource, image). A second request with the `idempotencyKey` of an earlier one gets the same answer and starts nothing. On the LSP face `workDoneToken` gets the progress of the turn, and `partialResultToken` its text as it is written, in values `{turnId, messageId, text}`. For this turn alone, `maxModelCalls` limits the calls of the model, and `allow` has rules for actions that need no question, as the settings have them: `npm run *`, `edit: docs/**`. `budget` replaces the budget of the session for the same period. */
export interface TurnParams {
  sid: string;
  input: Record<string, unknown>[];
  expectHead?: string;
  whenBusy?: "queue" | "steer" | "reject";
  idempotencyKey?: string;
  workDoneToken?: string | number;
  partialResultToken?: string | number;
  maxModelCalls?: number;
  allow?: string[];
  budget?: CostBudget;
}

/** The end of the turn; `text` is the last answer of the model. */
export interface TurnRunResult {
  turnId: string;
  stopReason: string;
  head: string | null;
  usage: ContextUsage;
  text: string;
  seq: number;
}

/** The receipt of a prompt; `position` counts from 1 in the queue. */
export interface TurnStartResult {
  turnId: string;
  userNodeId: string | null;
  disposition: "started" | "queued" | "steered";
  seq: number;
  position?: number;
}

/** The content blocks to add to the turn `expectTurnId`, by default to the running one. */
export interface TurnSteerParams {
  sid: string;
  input: Record<string, unknown>[];
  expectTurnId?: string;
}

/** The receipt: added to that turn, queued behind it, or a turn of its own because that one was over. */
export interface TurnSteerResult {
  outcome: "injected" | "queued" | "startedNewTurn";
  turnId: string;
  seq: number;
}

/** The tokens of the next request by their origin. `rules` are the user's rules that are sent beside the conversation; others stand in prompts and summaries. */
export interface UsageBy {
  system: number;
  toolDefs: number;
  user: number;
  assistant: number;
  thinking: number;
  toolResults: number;
  images: number;
  summary: number;
  files: number;
  rules: number;
}

/** A prompt entered the conversation; `content` is as its client wrote it. `source` is the author, null for a prompt of the past that is replayed. */
export interface UserMessage {
  nodeId: string | null;
  content: Record<string, unknown>[];
  source?: Author;
}

/** The state of file watching: `backend` is `client`, `watchfiles` or `none`. */
export interface WatchInfo {
  backend: string;
  roots: number;
  dropped: number;
}

/** The requests of a client. */
export interface Methods {
  "sidecar/status": { params: Empty; result: StatusResult };
  "sidecar/schema": { params: SchemaParams; result: SchemaResult };
  "sidecar/log/tail": { params: LogTailParams; result: LogTailResult };
  "sidecar/trace/set": { params: TraceSetParams; result: TraceSetResult };
  "sidecar/attach": { params: AttachParams; result: AttachResult };
  "sidecar/detach": { params: SidParams; result: Empty };
  "sidecar/session/new": { params: SessionNewParams; result: SessionNewResult };
  "sidecar/session/load": { params: SessionLoadParams; result: SessionLoadResult };
  "sidecar/session/list": { params: SessionListParams; result: SessionListResult };
  "sidecar/session/read": { params: SessionReadParams; result: SessionReadResult };
  "sidecar/session/tree": { params: SidParams; result: SessionTreeResult };
  "sidecar/session/fork": { params: SessionForkParams; result: SessionNewResult };
  "sidecar/session/rewind": { params: SessionRewindParams; result: SessionRewindResult };
  "sidecar/session/rename": { params: SessionRenameParams; result: SeqResult };
  "sidecar/session/archive": { params: SidParams; result: SeqResult };
  "sidecar/session/unarchive": { params: SidParams; result: SeqResult };
  "sidecar/session/delete": { params: SessionDeleteParams; result: Empty };
  "sidecar/session/close": { params: SidParams; result: SeqResult };
  "sidecar/session/export": { params: SessionExportParams; result: SessionExportResult };
  "sidecar/session/setConfigOption": { params: SetConfigOptionParams; result: SetConfigOptionResult };
  "sidecar/session/import": { params: SessionImportParams; result: SessionImportResult };
  "sidecar/turn/start": { params: TurnParams; result: TurnStartResult };
  "sidecar/turn/run": { params: TurnParams; result: TurnRunResult };
  "sidecar/turn/steer": { params: TurnSteerParams; result: TurnSteerResult };
  "sidecar/turn/interrupt": { params: InterruptParams; result: InterruptResult };
  "sidecar/queue/list": { params: SidParams; result: QueueResult };
  "sidecar/queue/edit": { params: QueueEditParams; result: QueueResult };
  "sidecar/queue/remove": { params: QueueRemoveParams; result: QueueResult };
  "sidecar/context/usage": { params: ContextUsageParams; result: ContextUsage };
  "sidecar/context/files": { params: SidParams; result: ContextFilesResult };
  "sidecar/context/drop": { params: ContextDropParams; result: ContextDropResult };
  "sidecar/context/pin": { params: ContextPinParams; result: ContextPinResult };
  "sidecar/context/expand": { params: ContextExpandParams; result: ContextExpandResult };
  "sidecar/rehydrate/preview": { params: RehydrateParams; result: RehydratePreviewResult };
  "sidecar/rehydrate/run": { params: RehydrateParams; result: RehydrateRunResult };
  "sidecar/fs/watch": { params: FsWatchParams; result: FsWatchResult };
  "sidecar/fs/unwatch": { params: FsUnwatchParams; result: Empty };
  "sidecar/compact/preview": { params: CompactPreviewParams; result: Plan };
  "sidecar/compact/compare": { params: CompactCompareParams; result: CompactCompareResult };
  "sidecar/compact/start": { params: CompactStartParams; result: CompactStartResult };
  "sidecar/compact/cancel": { params: CompactCancelParams; result: CancelResult };
  "sidecar/compact/undo": { params: CompactUndoParams; result: CompactUndoResult };
  "sidecar/compact/list": { params: SidParams; result: CompactListResult };
  "sidecar/compact/read": { params: CompactReadParams; result: CompactReadResult };
  "sidecar/rule/list": { params: RuleListParams; result: RuleListResult };
  "sidecar/rule/add": { params: RuleAddParams; result: RuleResult };
  "sidecar/rule/remove": { params: RuleRemoveParams; result: RuleResult };
  "sidecar/rule/keep": { params: RuleKeepParams; result: RuleDecisionResult };
  "sidecar/rule/dismiss": { params: RuleDismissParams; result: RuleDecisionResult };
  "sidecar/checkpoint/list": { params: SidParams; result: CheckpointListResult };
  "sidecar/checkpoint/diff": { params: CheckpointDiffParams; result: CheckpointDiffResult };
  "sidecar/checkpoint/restore": { params: CheckpointRestoreParams; result: CheckpointRestoreResult };
  "sidecar/complete": { params: CompleteParams; result: CompleteResult };
  "sidecar/highlight": { params: HighlightParams; result: HighlightResult };
  "sidecar/model/list": { params: SidParams; result: ModelListResult };
  "sidecar/permission/rules": { params: PermissionRulesParams; result: PermissionRulesResult };
  "sidecar/extension/list": { params: SidParams; result: ExtensionListResult };
}

/** The requests of the daemon. */
export interface ClientRequests {
  "sidecar/permission/request": { params: PermissionRequest; result: PermissionAnswer };
  "sidecar/elicit": { params: Elicitation; result: ElicitationAnswer };
  "sidecar/edit/apply": { params: EditApplyParams; result: EditApplyResult };
  "sidecar/editor/query": { params: EditorQueryParams; result: EditorQueryResult };
}

/** The params of a client's notifications, by method. */
export interface ClientNotifications {
  "sidecar/editor/context": EditorContextParams;
}

/** The params of the daemon's notifications, by method. */
export interface Notifications {
  "sidecar/event": EventNotification;
  "sidecar/gap": GapNotification;
  "sidecar/sessions/changed": SessionsChangedNotification;
  "sidecar/permission/resolved": PermissionResolvedNotification;
  "sidecar/elicitResolved": ElicitResolvedNotification;
  "sidecar/fs/changed": FsChangedNotification;
  "sidecar/closing": ClosingNotification;
}

/** The data of an event, by its kind. */
export interface EventData {
  "phase": Phase;
  "userMessage": UserMessage;
  "textDelta": TextDelta;
  "thinkingDelta": ThinkingDelta;
  "message": Message;
  "toolStarted": ToolStarted;
  "toolProgress": ToolProgress;
  "toolFinished": ToolFinished;
  "question": Elicitation;
  "questionResolved": QuestionResolved;
  "subagent": SubagentChanged;
  "plan": PlanChanged;
  "usage": ContextUsage;
  "compaction": Compaction;
  "compactionNear": CompactionNear;
  "budgetNear": BudgetNear;
  "compactionSummaryDelta": CompactionSummaryDelta;
  "rehydrated": Rehydrated;
  "headMoved": HeadChanged;
  "fileStale": FileStale;
  "fileFresh": FileFresh;
  "retry": Retry;
  "notice": Notice;
  "queue": QueueChanged;
  "configChanged": ConfigChanged;
  "pinsChanged": PinsChanged;
  "commandsChanged": CommandsChanged;
  "sessionChosen": SessionChosen;
  "infoChanged": InfoChanged;
  "rulesChanged": RulesChanged;
  "settled": Settled;
  "faulted": Faulted;
}

/** The kinds of errors, in `error.data.kind`. */
export type ErrorKind = "parse" | "invalidRequest" | "methodNotFound" | "invalidParams" | "notInitialized" | "alreadyInitialized" | "messageTooLarge" | "overloaded" | "cancelled" | "authRequired" | "sessionNotFound" | "nodeNotFound" | "compactionNotFound" | "itemNotFound" | "modelNotFound" | "busy" | "controlRequired" | "notSteerable" | "headMoved" | "wouldExceedWindow" | "storeUnavailable" | "leaseLost" | "fileProblem" | "modelFailed" | "turnBudget" | "invalidState" | "internal";

"""Values that a session publishes: its usage, compactions, plans, files, options, permissions and snapshot.

The facts of a conversation and the rules of its user are at the end.

Each class is a shape of the wire, which ``sidecar.protocol.codec`` spells in camelCase. Times are epoch ms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from msgspec import field

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import BudgetPeriod
from sidecar.text.clip import clip

CompactionStatus: TypeAlias = Literal["in_progress", "completed", "noop", "failed", "cancelled", "undone"]
SummarySource: TypeAlias = Literal["model", "localFallback"]
StopReasonName: TypeAlias = Literal["end_turn", "max_tokens", "refusal", "cancelled", "budget"]
"""The reason why a turn ended, in the words of the Agent Client Protocol, but for ``budget``."""


class TokenCounts(Value):
    """The tokens of one call, or the sum over many calls, as the provider reported them."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class EngineView(Value):
    """The reading of an engine's own meter: *used* of *limit* tokens."""

    used: int
    limit: int


class UsageBy(Value):
    """The tokens of the next request by their origin.

    *rules* are the user's rules that are sent beside the conversation; others stand in prompts and summaries.
    """

    system: int
    tool_defs: int
    user: int
    assistant: int
    thinking: int
    tool_results: int
    images: int
    summary: int
    files: int
    rules: int = 0


PART_NAMES: Final = {
    "system": "system prompt",
    "tool_defs": "tools",
    "rules": "the user's rules",
    "summary": "summaries",
    "user": "your prompts",
    "assistant": "answers",
    "thinking": "thinking",
    "tool_results": "tool results",
    "files": "restored files",
    "images": "images",
}
"""The parts of :class:`UsageBy` in words."""


RuleScope: TypeAlias = Literal["user", "project", "folder"]
"""The files that rules are about: all files of the user, those of a project, or those below one folder."""


class RuleFileUsage(Value, kw_only=True):
    """One rule file, such as ``AGENTS.md``, and the tokens that it takes.

    *scope* is ``user`` for a file in the state directory, ``project`` for one from the root of the repository
    to the session's folder, and ``folder`` for one further down. *inSystem* says whether it is in the system
    prompt; else a result in the conversation shows it. *cutChars* counts the characters not shown.
    """

    uri: str
    scope: RuleScope
    in_system: bool
    tokens: int
    size_bytes: int
    cut_chars: int


class BudgetState(Value):
    """A budget for each *per*, in *usd* dollars, in *tokens* or in both, and its spent part."""

    per: BudgetPeriod
    usd: float | None
    tokens: int | None
    spent_usd: float
    spent_tokens: int


class ContextUsage(Value):
    """The fill level of the window: *used* is the size of the next request, never a sum over requests.

    *source* is ``provider`` when *used* is based on a figure that the provider reported. *pct* is the share
    of *window* in percent. *limitBy* is ``price`` where a compaction is due before the window needs it,
    because later calls save more than it costs. The parts in *by* add up to *used*. With them come *rules*,
    the rule files that the model is shown, and *factor*, the tokens that its provider counts for one of the
    estimate, learned from usage. *limitWhy* gives the reason for *limit*, and the setting that moves it.
    *budgets* come with their spent parts, absent without a budget.
    """

    kind: ClassVar[str] = "usage"
    used: int
    window: int
    limit: int
    pct: float
    source: Literal["provider", "estimate"]
    as_of_node: str | None
    engine_view: Mapping[str, EngineView]
    by: UsageBy | None = None
    last_turn: TokenCounts | None = None
    session_total: TokenCounts | None = None
    cost: float | None = None
    rules: tuple[RuleFileUsage, ...] | None = None
    limit_by: Literal["price"] | None = None
    factor: float | None = None
    budgets: tuple[BudgetState, ...] | None = None
    limit_why: str | None = None


class Compaction(Value):
    """One compaction, from its start to its end.

    *preTokens* and *postTokens* are the size of the next request before and after it, as ``used`` of the
    usage tells it at those moments; one that was undone has no *postTokens*. *info* has the engine's counts.
    With the *trigger* ``expand`` it is the opposite: originals behind a summary came back into view.
    *loss* counts the facts of the folded part; it is absent where counting them would have made a turn wait,
    and ``sidecar/compact/read`` lists them in any case. *info* holds the numbers of tokens and messages
    before and after, whether a turn was split, whether an earlier summary was updated, and the engine's own
    entries.
    """

    kind: ClassVar[str] = "compaction"
    compaction_id: str
    engine: str
    trigger: Literal["manual", "auto", "overflow", "undo", "expand"]
    status: CompactionStatus
    pre_tokens: int
    pre_count: int
    dropped_count: int
    cut: int
    microcompacted: int
    before_head: str | None
    undoable: bool
    reason: str | None = None
    post_tokens: int | None = None
    post_count: int | None = None
    kept_from: str | None = None
    rehydrated: tuple[str, ...] = ()
    summary_source: SummarySource | None = None
    summary: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    after_head: str | None = None
    info: Mapping[str, Any] | None = None
    loss: Loss | None = None


class Gate(Value):
    """Whether the next request is over the engine's limit."""

    tokens: int
    limit: int
    window: int
    over: bool


class Cut(Value):
    """The first turn that is kept; *node_id* is None while nothing is stored."""

    node_id: str | None
    index: int


class Dropped(Value):
    """The turns that a compaction folds away; *nodes* are their ids, oldest first."""

    count: int
    tokens: int
    nodes: tuple[str, ...] = ()


class Kept(Value):
    """The turns that a compaction leaves unchanged."""

    count: int
    tokens: int


class Microcompact(Value):
    """The old tool results that are blanked in the kept turns, and the tokens that this frees."""

    blanked: int
    tokens: int


class RehydrateCandidate(Value):
    """A file that would be restored; *stale* when it changed after the model had read it."""

    uri: str
    tokens: int
    stale: bool


class Projected(Value):
    """The size of the next request after the compaction, in tokens.

    *tokens* is an estimate, *pct* its share of the window in percent. The length of the summary decides, from
    *low* to *high*. Where *high* is that of the gate, a long summary would save nothing, and nothing changes.
    """

    tokens: int
    pct: float
    low: int
    high: int


class NoOp(Value):
    """The reason why a compaction does nothing."""

    reason: str


class Plan(Value):
    """The plan of a compaction, made without a model call.

    *pre_tokens* is the size of the next request as its usage tells it: the sum of *dropped*, *kept*, the
    system prompt and the tools.
    *loss* is that of a compaction without a model.
    """

    plan_id: str
    expect_head: str | None
    engine: str
    gate: Gate
    cut: Cut | None = None
    pre_tokens: int | None = None
    dropped: Dropped | None = None
    kept: Kept | None = None
    microcompact: Microcompact | None = None
    rehydrate: tuple[RehydrateCandidate, ...] = ()
    projected: Projected | None = None
    noop: NoOp | None = None
    prompt: str | None = None
    loss: Loss | None = None


class RestoredFile(Value):
    """A file that was restored into the conversation, as it was at that moment."""

    uri: str
    hash: str
    source: str
    tokens: int


class ContextFile(Value):
    """A file that the model has read: *stale* when it changed since, *inWindow* while the model sees it.

    *turnsAgo* is the number of prompts since it was read, absent when that is no part of the conversation.
    """

    uri: str
    hash: str
    source: str
    read_at_node: str | None
    tokens: int
    stale: bool
    in_window: bool
    buffer_version: int | None = None
    turns_ago: int | None = None


class Author(Value):
    """The client that sent a prompt: the id of its connection, and its own name for itself."""

    client_id: str
    name: str


class QueueItem(Value):
    """A prompt that waits; *input* is its content as the client wrote it."""

    item_id: str
    turn_id: str
    input: tuple[Mapping[str, Any], ...]


class ConfigChoice(Value):
    """One value of a config option."""

    value: str
    name: str


class ConfigOption(Value):
    """One config option of a session, in the shape of the Agent Client Protocol."""

    id: str
    name: str
    category: str
    current_value: str
    options: tuple[ConfigChoice, ...]
    type: Literal["select"] = "select"


class PlanItem(Value):
    """One line of the model's todo list."""

    content: str
    status: str
    priority: str


WorkName: TypeAlias = Literal["idle", "working", "waiting", "failed"]
"""``waiting`` is for the user; ``failed`` lasts until the next prompt."""

WaitingFor: TypeAlias = Literal["permission", "question", "budget"]
"""The decision of the user that a session waits for."""


class TurnEnd(Value, kw_only=True):
    """The end of a turn, as its session keeps it until the next one.

    It is stored with the prompt already, as the end that counts if its process dies.

    Attributes:
        head: the node with which it ended; None where it brought none, as a slash command.
        stop_reason: None for a turn that failed.
        error_kind: the kind of the failure, empty for none; *message* is a sentence about it.
    """

    turn_id: str
    head: str | None
    stop_reason: StopReasonName | None = None
    error_kind: str = "interrupted"
    message: str = "the daemon ended in the middle of the turn"
    duration_ms: int = 0


class WorkState(Value, kw_only=True):
    """The state of a session's work, since a time in epoch milliseconds; *text* is one line about it."""

    state: WorkName
    since: int
    waiting_for: WaitingFor | None = None
    text: str = ""


class SessionSnapshot(Value):
    """A session at one moment: a client shows this, then follows the events after ``seq``.

    *turn_id* and *compaction_id* name the turn and the compaction that run now, None for none;
    *queued_compactions* name the ones that wait. *parent*, *kind*, and *state* to *text* are as in the list
    of sessions.
    *open_questions* are the forms that wait for an answer.
    """

    sid: str
    cwd: str
    roots: tuple[str, ...]
    title: str
    model: str
    engine: str
    phase: str
    head: str | None
    messages: int
    seq: int
    created_at: int
    updated_at: int
    turn_id: str | None = None
    compaction_id: str | None = None
    queue: tuple[QueueItem, ...] = ()
    queued_compactions: tuple[str, ...] = ()
    parent: str | None = None
    archived: bool = False
    ephemeral: bool = False
    plan: tuple[PlanItem, ...] = ()
    state: WorkName = "idle"
    since: int = 0
    waiting_for: WaitingFor | None = None
    text: str | None = None
    open_questions: tuple[Elicitation, ...] = ()
    kind: SessionKind | None = None


SessionKind: TypeAlias = Literal["subagent"]
"""The kind of a session that no user has begun."""

TaskState: TypeAlias = Literal["running", "completed", "failed", "interrupted"]
"""The state of a sub-agent's task; it is interrupted also where the daemon ended in the middle of it."""


class SessionSummary(Value):
    """One line of a session list; *host* and *pid* have it open elsewhere, until *lease* at least.

    *state* is ``waiting`` while the session waits for its user, and *waiting_for* is the decision then.
    *text* is the question, the prompt at work or the failure; *since* is the time at which that began. All
    are absent where another process has the session open and alone knows them.
    *parent* is the session that this one was forked from. With the *kind* ``subagent`` it is the session of
    the call *tool_call_id* that began this one, and *task* is the state of that work.
    """

    sid: str
    cwd: str
    title: str
    updated_at: int
    phase: str
    messages: int
    tokens: int
    last_compaction_at: int | None = None
    archived: bool = False
    host: str | None = None
    pid: int | None = None
    lease: int | None = None
    state: WorkName | None = None
    since: int | None = None
    waiting_for: WaitingFor | None = None
    text: str | None = None
    parent: str | None = None
    kind: SessionKind | None = None
    tool_call_id: str | None = None
    task: TaskState | None = None


class PermissionOption(Value):
    """One answer that the user may choose."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once"]


class PermissionSubject(Value):
    """The subject of a question; *type* is ``toolCall``, ``command`` or ``path``.

    *detail* is for reading: hidden characters stand in it as numbers, and long runs of blanks are counted.
    """

    type: str
    tool_call_id: str
    tool: str
    detail: str
    diffs: tuple[Mapping[str, Any], ...] = ()


class PermissionRequest(Value):
    """A question to the user. Without an answer by *expires_at* it counts as rejected.

    *child* is the sub-agent that asks, where the client follows its parent alone; then the session and the
    tool call are the ones of the parent.
    """

    sid: str
    turn_id: str | None
    permission_id: str
    title: str
    subject: PermissionSubject
    options: tuple[PermissionOption, ...]
    expires_at: int
    description: str | None = None
    child: str | None = None


class HunkAnswer(Value):
    """The answer about one hunk of a proposed change.

    *diff* and *hunk* are its indices in the diffs of the question and in the ``hunks`` of that diff. With
    *text* it is kept as the user has edited it.
    """

    diff: int
    hunk: int
    accepted: bool
    text: str | None = None


class PermissionAnswer(Value):
    """The user's answer; anything but ``selected`` with a known option counts as a rejection.

    With an option that allows a change, *hunks* names the hunks that are refused or edited; the others are
    kept as they were proposed. The model is told which.
    """

    outcome: str
    option_id: str | None = None
    hunks: tuple[HunkAnswer, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)  # stored by the names of its fields
class Elicitation:
    """Questions to the user as a form. It counts as not answered after *expiresAt*.

    *from* is ``agent`` for the model, or the name of a tool server. *schema* is flat, as the Model Context
    Protocol has it for elicitation: texts, numbers, booleans, one of several choices, or some of them. With
    *url* the user is asked to open that address, and the form has no fields: clients show the address and
    never open it by themselves. *toolCallId* is the call that asks, where that is known. *child* is the
    sub-agent that asks, where the client follows its parent alone; then the session and the call are the ones
    of the parent.
    """

    kind: ClassVar[str] = "question"
    sid: str
    turn_id: str | None
    elicitation_id: str
    asker: str = dataclasses.field(metadata={"wire": "from"})
    message: str
    schema: Mapping[str, Any]
    expires_at: int
    tool_call_id: str | None = None
    url: str | None = None
    child: str | None = None


class ElicitationAnswer(Value):
    """The user's answer: ``accept`` with the fields of the form, ``decline``, or ``cancel`` to dismiss it.

    An answer that does not fit the form counts as none.
    """

    action: str
    content: Mapping[str, Any] | None = None


ExtensionOrigin: TypeAlias = Literal["user", "folder"]
"""The author of an extension: the user, or the author of the session's folder."""


class ListedCommand(Value, kw_only=True):
    """A command from a Markdown file; one that is not *trusted* asks before its first use."""

    name: str
    description: str
    hint: str | None
    model: str | None
    uri: str
    source: ExtensionOrigin
    trusted: bool


class ListedSkill(Value, kw_only=True):
    """A skill; *uri* is its ``SKILL.md``."""

    name: str
    description: str
    uri: str
    source: ExtensionOrigin


class ListedHook(Value, kw_only=True):
    """A hook: its event, its command with secrets masked, and the tools that it is about, none for all."""

    event: str
    command: str
    tools: tuple[str, ...]
    source: ExtensionOrigin


class ListedServer(Value, kw_only=True):
    """A tool server: whether it runs now, its number of tools, and why it does not run.

    The *source* of one that a client named is ``client``.
    """

    name: str
    source: ExtensionOrigin | Literal["client"]
    state: Literal["starting", "running", "restarting", "failed"]
    tools: int
    problem: str | None = None


class ListedExtensions(Value, kw_only=True):
    """All extensions of a session, and sentences about files that are left out."""

    commands: tuple[ListedCommand, ...]
    skills: tuple[ListedSkill, ...]
    hooks: tuple[ListedHook, ...]
    servers: tuple[ListedServer, ...]
    problems: tuple[str, ...]


PermissionEffect: TypeAlias = Literal["allow", "ask", "deny"]

RuleOrigin: TypeAlias = Literal["user", "session", "turn", "workspace", "builtIn"]
"""The user's settings, the session (its mode and the answers "always"), the running turn, the folders of the
session, or the daemon itself."""


class PermissionRule(Value):
    """A rule that holds in a session; *rule* is as the settings write it, *description* says it in words."""

    effect: PermissionEffect
    rule: str
    source: RuleOrigin
    description: str


class PermissionVerdict(Value):
    """The answer to an action that was not run: whether it would be allowed, asked or denied, and why.

    *rule* is the rule of the user or of the turn that decides, absent where none does. *always* is the
    scope of an answer "always".
    """

    outcome: PermissionEffect
    reason: str
    rule: PermissionRule | None = None
    always: str | None = None


CompletionKind: TypeAlias = Literal["command", "argument", "file", "folder", "mention"]


class EditorPosition(Value):
    """A place in a text; *line* and *character* count from 0."""

    line: int
    character: int


class EditorRange(Value):
    """A part of a text, from *start* up to *end*."""

    start: EditorPosition
    end: EditorPosition


class EditorFile(Value):
    """The file that the user looks at.

    *selections* has the main one first; an empty range is a cursor. *selected_text* is needed only for a text
    that the daemon cannot read, such as a file that was never saved.
    """

    uri: str
    language_id: str | None = None
    is_dirty: bool = False
    selections: tuple[EditorRange, ...] = ()
    selected_text: str | None = None
    visible_ranges: tuple[EditorRange, ...] = ()


class EditorTab(Value):
    """A file that is open in the editor; *is_dirty* says that it has unsaved changes."""

    uri: str
    is_dirty: bool = False


class EditorDiagnostic(Value):
    """One problem, in the shape of the Language Server Protocol; *severity* is 1 (an error) to 4 (a hint)."""

    range: EditorRange
    message: str
    severity: int = 1
    code: str | int | None = None
    source: str | None = None


class FileDiagnostics(Value):
    """Every problem of one file, none where *diagnostics* is empty; *version* is that of its buffer."""

    uri: str
    diagnostics: tuple[EditorDiagnostic, ...]
    version: int | None = None


class CompletionItem(Value):
    """One completion: *insert_text* replaces the text from *start* up to *end*.

    *kind* is `command`, `argument` of one, `file`, `folder` or `mention`.
    """

    kind: CompletionKind
    label: str
    insert_text: str
    start: int
    end: int
    detail: str | None = None


FactName: TypeAlias = Literal["request", "outcome", "modified", "read", "command", "search", "error"]
"""A kind of fact: the words of the user or of the agent, a changed or read file, a command, a result that was
looked up, or a failure."""

FactState: TypeAlias = Literal["kept", "shortened", "line", "gone"]
"""How the model sees a fact: whole, in part, as a share of a line that stands for several, or not at all."""

_LINE_CHARS: Final = 160
_STATE_WORDS: Final[Mapping[FactState, str]] = {"gone": "let go", "line": "in one line"}
_NOUNS: Final[Mapping[FactName, str]] = {"modified": "changed file", "read": "read file"}
_PINNED: Final = "The user pinned these passages of the conversation. They hold, word for word:"


@dataclass(frozen=True, slots=True)  # stored by the names of its fields
class KindLoss:
    """The facts of one kind that a compaction folded away, by their state."""

    kind: FactName
    kept: int
    shortened: int
    let_go: int = dataclasses.field(metadata={"wire": "gone"})
    line: int | None = None


@dataclass(frozen=True, slots=True)  # stored by the names of its fields
class Loss:
    """The facts that stood in the folded part of a conversation, each counted once.

    The model still sees the *kept* ones whole, the *shortened* ones in part, and of each in *line* that it
    was there. *share* is the part of the folded text that it sees, from 0 to 1. *mended* is the number of
    lines that were dropped from a model's summary because they could not be true.
    """

    kept: int
    shortened: int
    let_go: int = dataclasses.field(metadata={"wire": "gone"})
    mended: int = 0
    kinds: tuple[KindLoss, ...] = ()
    line: int | None = None
    share: float | None = None

    @property
    def total(self) -> int:
        """The number of facts."""
        return self.kept + self.shortened + (self.line or 0) + self.let_go


class ReportedFact(Value):
    """One fact of a loss report; *nodeId* is the node that holds it, on the branch before the compaction.

    *factId* is the same in every report of a session. *place* is the place of the node in the chronicle. A
    text is cut to 2,000 characters.
    """

    fact_id: str
    kind: FactName
    state: FactState
    text: str
    node_id: str
    pinned: bool = False
    place: int | None = None


def describe_loss(loss: Loss) -> str:
    """Return the counts of a loss report as one line for a user.

    >>> describe_loss(Loss(95, 3, 12))
    'Facts of the folded part: 95 kept word for word, 3 shortened, 12 let go.'
    >>> describe_loss(Loss(95, 3, 0, line=40))
    'Facts of the folded part: 95 kept word for word, 3 shortened, 40 in one line of several, 0 let go.'
    """
    counts = f"{loss.kept:,} kept word for word, {loss.shortened:,} shortened"
    counts += f", {loss.line:,} in one line of several" if loss.line else ""
    lines = f" {loss.mended} unfounded line{'s' * (loss.mended != 1)} of the summary dropped."
    return f"Facts of the folded part: {counts}, {loss.let_go:,} let go.{lines if loss.mended else ''}"


def report_loss(loss: Loss) -> str:
    """Return the line of a compaction that was made, with the command that lists the thinned facts.

    >>> report_loss(Loss(95, 3, 12))
    'Facts of the folded part: 95 kept word for word, 3 shortened, 12 let go. /loss lists them.'
    """
    is_thinned = loss.shortened or loss.line or loss.let_go
    return f"{describe_loss(loss)} /loss lists them." if is_thinned else describe_loss(loss)


def draw_loss(loss: Loss, width: int = 24) -> str:
    """Return a strip of *width* cells, from whole to gone; each count that is not 0 has one at least.

    >>> draw_loss(Loss(6, 12, 0, line=6)), draw_loss(Loss(1, 0, 0, line=200)), draw_loss(Loss(0, 0, 0))
    ('██████▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░', '█░░░░░░░░░░░░░░░░░░░░░░░', '')
    """
    counts = (loss.kept, loss.shortened, loss.line or 0, loss.let_go)
    total = sum(counts)
    if not total:
        return ""
    cells = [max(1, width * count // total) if count else 0 for count in counts]
    cells[cells.index(max(cells))] += width - sum(cells)
    return "".join(sign * n for sign, n in zip("█▓░·", cells, strict=True))


def count_kind(kind: FactName, n_facts: int) -> str:
    """Return a number of facts of one kind in words.

    >>> count_kind("search", 2), count_kind("modified", 1), count_kind("error", 1)
    ('2 searches', '1 changed file', '1 error')
    """
    noun = _NOUNS.get(kind, kind)
    return f"{n_facts:,} {noun}{('es' if noun == 'search' else 's') * (n_facts != 1)}"


def fact_line(fact: ReportedFact) -> str:
    """Return *fact* as one line for a user.

    >>> fact_line(ReportedFact("0a1b2c3d4e", "command", "gone", "make test [exit 2]", "n7"))
    '- 0a1b2c3d4e let go, command: make test [exit 2]'
    """
    state = _STATE_WORDS.get(fact.state, fact.state)
    text = clip(fact.text, _LINE_CHARS)
    return f"- {fact.fact_id} {state}{', pinned' * fact.pinned}, {fact.kind}: {text}"


class Pin(Value):
    """A text that the model sees word for word in each request; *nodeId* is its node, null for none.

    The pin of a fact has the id of the fact.
    """

    pin_id: str
    text: str
    node_id: str | None = None


def describe_pins(pins: Sequence[Pin]) -> str:
    """Return *pins* as a part of the system prompt; empty for none.

    >>> print(describe_pins([Pin("0a1b2c3d4e", "port 7013"), Pin("1b2c3d4e5f", "one\\ntwo")]))
    The user pinned these passages of the conversation. They hold, word for word:
    <BLANKLINE>
    - port 7013
    - one
      two
    """
    lines = ("- " + pin.text.replace("\n", "\n  ") for pin in pins)
    return "\n".join((f"{_PINNED}\n", *lines)) if pins else ""


RuleSource: TypeAlias = Literal["user", "summary", "found"]
"""The origin of a rule: set by hand, proposed by the model that writes summaries, or found in a prompt by an
earlier version."""


class RuleRevocation(Value):
    """The words that took a rule back; without *text* it was withdrawn by hand."""

    source: Literal["user", "summary"]
    at: int
    text: str | None = None
    node_id: str | None = field(default=None, name="node")


class SessionRule(Value, kw_only=True):
    """A rule of the user, word for word.

    *node* is the prompt that it is quoted from, and *quote* its words there; a rule set by hand has neither.
    While *proposed* the user has neither kept nor dismissed it: it holds, and the user is asked. It holds
    *since* that time. Once it was taken back *holds* is false, and *revokedBy* has the words that did it.
    *conflicts* are later words of the user that may have done so; it is not clear, and both stand.
    """

    id: str
    text: str
    source: RuleSource
    at: int = field(name="since")
    node_id: str | None = field(default=None, name="node")
    quote: str | None = None
    proposed: bool = False
    holds: bool = True
    revoked_by: RuleRevocation | None = None
    conflicts: tuple[str, ...] = ()


class RuleStatement(Value):
    """A line of a model about rules: *quote* is a rule, or with *rule_id* the words about that one."""

    kind: Literal["standing", "ended", "conflict"]
    rule_id: str
    quote: str

"""The port of the compaction engines: request, input, plan and result of a compaction.

A compaction goes one way, whichever engine does it. The engine is given a request and the conversation as
it is now. Without a model it computes its gate and its plan: the cut between the entries to fold and the
entries to keep. It then writes the summary of the folded entries, with a model or without one. Everything
else is the host's, for every engine alike: the files that come back, the weight of the result, and the branch
of the stored conversation that it becomes (``window.compaction``).

One engine instance serves one session and may keep indexes over its history. Counts are in entries, tokens in
the engine's own meter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from msgspec import field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value, hide_in_repr
from sidecar.conductor.contract import (
    Gate,
    Loss,
    Microcompact,
    NoOp,
    RestoredFile,
    RuleStatement,
    SummarySource,
)
from sidecar.conversation import Entry, FileRead, History, Index
from sidecar.llmgateway.contract import ModelCard, ToolResultBlock, Turn
from sidecar.rooms import Participant
from sidecar.runtime.contract import ModelInvoker
from sidecar.text.calls import ToolEffects
from sidecar.window_budget.contract import CachedRequest

NO_WINDOW: Final = NoOp("the model's context window is unknown")
NO_MODEL: Final = NoOp("no model is at hand to condense with")
NOTHING_TO_FOLD: Final = NoOp("there is nothing to condense")
UNDER_LIMIT: Final = NoOp("the conversation is under the limit")
WOULD_NOT_SHRINK: Final = NoOp("the result would not be smaller")
SUMMARY_TOO_LONG = "the model's summary was too long to be worth it"


class EngineMarks(Value, kw_only=True):
    """The beginnings of the texts that an engine writes into a conversation under the user's role.

    They give the kind of a turn only where none was stored: in session files of earlier versions.

    Attributes:
        summaries: of its summaries.
        files: of the files that it restores.
        headings: the headings that it asks a model's summary to have, in order; none for any form.
    """

    summaries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()


class CompactionRequest(Value, kw_only=True):
    """How a compaction is to be done.

    Attributes:
        engine: the engine's name; empty for the session's own.
        force: whether it is done below the engine's limit as well.
        instructions: the user's wishes for the summary.
        policy: thresholds by their wire names; they override the session's.
        plan_id: an earlier preview that is to be carried out as it was shown.
        expect_head: the node that the conversation must stand at, None for any.
        reject_when_busy: whether to refuse instead of waiting while a turn runs.
        limit_by: the ground for a lower limit than the window needs, None for none.
    """

    engine: str = ""
    force: bool = True
    instructions: str | None = None
    policy: Mapping[str, float] = field(default_factory=dict)
    plan_id: str | None = None
    expect_head: str | None = None
    reject_when_busy: bool = False
    limit_by: Literal["price"] | None = None


class PreparedSummary(Value, kw_only=True):
    """A model's summary of the beginning of a conversation, written before its compaction.

    Attributes:
        engine: the engine that made it.
        text: the summary.
        node_id: the first entry that it does not cover.
        mended: the lines that its check dropped, each with the reason.
        statements: the model's statements about the user's rules.
    """

    engine: str
    text: str
    node_id: str
    mended: tuple[str, ...] = ()
    statements: tuple[RuleStatement, ...] = ()


class EngineInput(Value, kw_only=True):
    """The conversation that an engine is to judge.

    Attributes:
        history: the conversation.
        card: the card of the session's model, None for an unknown one.
        overhead_tokens: the tokens of a request beside the history: the system prompt, the tool schemas and
            the prompt that is about to enter.
        context_tokens: the size of the next request by the session's meter, which a gate goes by; 0 for a
            conversation that is not the session's, which an engine weighs by itself.
        summarizer_card: the card of the model that writes summaries, None for unknown.
        participants: the clients of the session, for engines that name speakers.
        same_file: makes one name of all spellings of a file's path.
        tool_effects: the effects of the tools on offer, by name. No engine knows a tool by its name.
        prepared: a summary that was prepared for this conversation, None for none.
        cached: the conversation as the provider of the summarising model has it in its cache, None for none.
    """

    history: History
    card: ModelCard | None
    overhead_tokens: int
    context_tokens: int
    summarizer_card: ModelCard | None = None
    participants: tuple[Participant, ...] = ()
    same_file: Callable[[str], str] = str
    tool_effects: Mapping[str, ToolEffects] = field(default_factory=dict)
    prepared: PreparedSummary | None = None
    cached: CachedRequest | None = None

    __repr__ = hide_in_repr("cached")

    @property
    def window(self) -> int:
        """The model's window in tokens, 0 for unknown."""
        return self.card.context_window if self.card is not None else 0


class CompactionPlan(Value, kw_only=True):
    """The effects of a compaction that are known without a model.

    A compaction of the same input does all of it, entry by entry. Only the length of the summary is not known
    yet, so the size afterwards is a range. It is the size before the host brings files back.

    Attributes:
        cut: the index of the first entry kept.
        pinned: the indices before *cut* that stay all the same.
        pre_tokens: the size of a request before it, in the engine's own tokens.
        dropped_tokens: the tokens that go, with an earlier summary and the parts cut from entries.
        kept_tokens: the tokens of the entries that stay, as they are kept. Together with *dropped_tokens* and
            the overhead this is *pre_tokens*.
        projected_tokens: the size of a request after it with a summary of the usual length.
        low_tokens: the least that a request may take after it.
        high_tokens: the most that a request may take after it.
        microcompact: old tool results that are blanked, or cut, in the kept part.
        kept: returns the turns that stay, as they will be sent; None where they stay unchanged.
        prompt: returns the first prompt for the summarising model, None for none. Pure, and long: it may be
            called in a thread, or not at all.
        details: the engine's own plan, which it carries out.
    """

    cut: int
    pinned: tuple[int, ...] = ()
    pre_tokens: int
    dropped_tokens: int
    kept_tokens: int
    projected_tokens: int
    low_tokens: int
    high_tokens: int
    microcompact: Microcompact = field(default_factory=lambda: Microcompact(0, 0))
    kept: Callable[[], Sequence[Turn]] | None = None
    prompt: Callable[[], str | None] = lambda: None
    details: Any = None

    __repr__ = hide_in_repr("details")

    @property
    def dropped(self) -> list[int]:
        """The indices of the entries that the summary will stand for, oldest first."""
        return [index for index in range(self.cut) if index not in self.pinned]

    @property
    def n_dropped(self) -> int:
        """The number of them."""
        return self.cut - len(self.pinned)


class FreshFile(Value):
    """A file as it is now: its *text* and the *read* that shows all of it, or the *problem* of reading it."""

    uri: str
    text: str | None = None
    read: FileRead | None = None
    problem: str | None = None


FreshFiles: TypeAlias = Callable[[Sequence[str]], Awaitable[Mapping[str, FreshFile]]]
"""Reads files, named as the model named them, as they are now: unsaved buffer first."""


class EngineDeps(Value):
    """The means of an engine while it compacts.

    *invoke* None means no model: a local summary. The model may take *deadline_s* altogether, None for as
    long as it likes.
    """

    invoke: ModelInvoker | None
    cancel: CancelToken
    deadline_s: float | None


class SummaryFailedError(Exception):
    """An engine that needs a summary got no usable one. Its text gives the user the reason."""


class CompactionResult(Value, kw_only=True):
    """The result of a compaction.

    Attributes:
        entries: the entries that the model gets from now on: a summary, and kept entries of the history.
        cut: the index of the first entry kept.
        dropped_count: the number of entries that the summary stands for.
        pre_tokens: the size of a request before it.
        post_tokens: the size of a request after it; always less.
        summary: the text of the summary, empty for none.
        summary_source: the author of the summary; None without a summary, where only items too large for the
            window were cut in place.
        fallback_reason: why a model did not write it.
        microcompacted: the number of old tool results that were blanked.
        restored: the files that came back.
        missing: the files that could not come back, each with the reason.
        info: further figures of the engine, in the wire's spelling.
        loss: the facts folded away, by their state; None while they are not counted.
        statements: the model's statements about the user's rules.
    """

    entries: Sequence[Entry]
    cut: int
    dropped_count: int
    pre_tokens: int
    post_tokens: int
    summary: str
    summary_source: SummarySource | None
    fallback_reason: str | None = None
    microcompacted: int = 0
    restored: tuple[RestoredFile, ...] = ()
    missing: tuple[str, ...] = ()
    info: Mapping[str, Any] | None = None
    loss: Loss | None = None
    statements: tuple[RuleStatement, ...] = ()


class SessionEngine(ABC):
    """One engine at work in one session.

    Attributes:
        name: the name on the wire, such as ``windowBudget``.
        marks: the beginnings of the texts that it writes into a conversation.
        compacts: whether it ever compacts.
        writes: whether it has a model write a note; for others the host folds the dropped entries.
        prepares: whether it can go on from a summary that was prepared. For others the host prepares a whole
            compaction.
        index: everything that it knows of the conversation, None for nothing.
    """

    index: Index[Any] | None = None
    name: ClassVar[str]
    marks: ClassVar[EngineMarks] = EngineMarks()
    compacts: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    prepares: ClassVar[bool] = False

    @abstractmethod
    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the next request is over the limit.

        The engine takes in the entries since the last call, which is all that it costs, also where it goes by
        ``context_tokens``.
        """

    @abstractmethod
    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Plan a compaction without a model call; a refusal is the refusal of the compaction as well."""

    async def compact(
        self, given: EngineInput, request: CompactionRequest, plan: CompactionPlan, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Carry out *plan*, which was made of the same conversation. Changes nothing itself.

        An engine that writes no notes has none of its own: the host folds the entries that its plan drops.

        Returns:
            A result with fewer tokens, or the reason why there is none.

        Raises:
            CancelledByToken: ``deps.cancel`` fired.
            SummaryFailedError: no usable summary came, and the engine does not do without.
        """
        return WOULD_NOT_SHRINK

    @abstractmethod
    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return the tokens of *entries* as the gate counts them, in any thread."""

    def apart(self) -> SessionEngine:
        """Return a copy that plans in a thread where a plan looks at every message; else itself."""
        return self

    def prepare_move(self, history: History) -> None:
        """Take in *history*, in a thread, before the conversation moves there."""
        if self.index is not None:
            self.index.prepare(history)

    async def prepare(
        self, given: EngineInput, request: CompactionRequest, deps: EngineDeps
    ) -> PreparedSummary | None:
        """Return a summary of the entries that a compaction would fold now, None where none can be had."""
        return None


class PlannedCompaction(Value):
    """A compaction that was planned: the conversation as *engine* was given it, and its gate.

    *found* is the plan, or the reason why there is nothing to do.
    """

    engine: SessionEngine
    request: CompactionRequest
    given: EngineInput
    gate: Gate
    found: CompactionPlan | NoOp

    @property
    def plan(self) -> CompactionPlan:
        """The plan, of a compaction that does something."""
        assert isinstance(self.found, CompactionPlan)
        return self.found


def compacted_entries(
    history: History,
    cut: int,
    summary: Turn | None,
    kept: Sequence[Turn],
    *,
    pinned: tuple[int, ...] = (),
) -> list[Entry]:
    """Return the entries of a conversation after a compaction that cuts it at one place.

    Args:
        history: the conversation before it.
        cut: the index of the first entry kept; 0 where nothing is folded.
        summary: the turn that stands for the entries before *cut*, None for none.
        kept: the turns that are kept, one for each entry: the pinned ones, then those from *cut* on.
        pinned: the indices of the prompts before *cut* that are kept behind the summary.
    """
    entries: list[Entry] = []
    if summary is not None:
        folded = history.first(cut).node_ids
        for index in sorted(pinned, reverse=True):
            folded = folded[:index] + folded[index + 1 :]
        entries.append(Entry(summary, "summary", origin=folded))
    kept_entries = (*(history[index] for index in pinned), *history[cut:])
    entries += map(entry_with_turn, kept_entries, kept)
    return entries


def entry_with_turn(entry: Entry, turn: Turn) -> Entry:
    """Return *entry* with *turn* as its turn, without the reads of results that *turn* changed."""
    if turn is entry.turn or turn == entry.turn:
        return entry
    shown = {block.call_id: block for block in turn.blocks if isinstance(block, ToolResultBlock)}
    changed = {
        block.call_id
        for block in entry.turn.blocks
        if isinstance(block, ToolResultBlock) and shown.get(block.call_id) != block
    }
    return replace(entry, turn=turn, reads=tuple(read for read in entry.reads if read.call_id not in changed))


class NoEngine(SessionEngine):
    """The engine that leaves every conversation as it is."""

    name: ClassVar[str] = "none"
    compacts: ClassVar[bool] = False
    writes: ClassVar[bool] = False

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return a gate that is never over."""
        return Gate(given.context_tokens, given.window, given.window, over=False)

    def plan(self, given: EngineInput, request: CompactionRequest) -> NoOp:
        """Return why nothing would be done."""
        return NoOp("this session's engine does not compact")

    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return 0: this engine counts nothing."""
        return 0

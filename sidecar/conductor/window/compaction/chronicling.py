"""The chronicle of a session, which the host puts into each summary for every engine.

An engine decides the cut, and may have a model write a note. The host puts the chronicle of everything before
the cut into the entry that stands for it, below the note: the older, the thinner (:mod:`sidecar.chronicle`).
Each one is made from the entries as they were first stored, never from an earlier chronicle, so it is the
same with a note and without one, and after an undo, a branch or a restart.

The kept entries and the chronicle together take a share of the window, a fifth by default. A tail of
more than half of that is thinned (see :mod:`sidecar.conductor.window.compaction.tail`), and the chronicle has
at least half. It has at most a quarter of the folded tokens, and half of the room below the limit. For
example, in a window of 200,000 tokens with 6,000 kept and 150,000 folded the chronicle has 34,000.

An entry is ranked once, when it is first part of a compaction; a path that did not grow out of the one before
is ranked anew, in the thread of the compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, takewhile
from threading import Lock
from typing import Final

from sidecar._internal.values import Value
from sidecar.chronicle import HEADER, INDEX_HEADER, Chronicle, Meter, Written
from sidecar.conductor.contract import Gate
from sidecar.conductor.engine import (
    SUMMARY_TOO_LONG,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineInput,
    FreshFiles,
    PlannedCompaction,
    SessionEngine,
    compacted_entries,
)
from sidecar.conductor.window.compaction.tail import kept_turns, thin_plan, thin_result
from sidecar.conversation import AppendOnlySeq, Entry, History
from sidecar.llmgateway.contract import Block, TextBlock, UserTurn
from sidecar.window_budget import DIGEST_HEADER

VIEW_SHARE: Final = 0.2
"""The share of the window that the conversation takes after a compaction."""

_MARK_CHARS: Final = 48
"""By so much of its header a chronicle is known, also one that an earlier version wrote."""

_FOLDED_SHARE: Final = 4
"""The chronicle takes at most one in so many tokens of what is folded."""

_ROUNDING_TOKENS: Final = 2
"""An engine may round the tokens of the parts otherwise than those of the whole."""

_LEAST_SHARE: Final = 2
"""Beside kept entries that fill the view, the chronicle has one in so many tokens of it."""

BACK_IN_VIEW: Final = "\n\n[Turns that this stood for and that follow word for word:"
"""Begins the note that an expansion adds to a summary."""

_ATTEMPTS: Final = 4
"""How often a chronicle is written smaller where the engine counts the whole higher than its parts."""


class Keeping(Value, kw_only=True):
    """The means of the host to keep a part of the folded entries.

    Attributes:
        look: reads files as they are now.
        chronicle: the chronicle of the session.
    """

    look: FreshFiles
    chronicle: SessionChronicle


class SessionChronicle:
    """The chronicle of one session, which follows its conversation.

    Attributes:
        view_share: the share of the window that the conversation takes after a compaction.
        entries: the entries that have a place in the chronicle; that of the first is 1.
    """

    def __init__(self, view_share: float = VIEW_SHARE) -> None:
        self.view_share = view_share
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        self._known: AppendOnlySeq[Entry] = AppendOnlySeq()
        self._chronicle = Chronicle()
        self.entries: list[Entry] = []
        self._places: dict[str, int] = {}

    def write(self, history: History, cut: int, room: int, meter: Meter) -> Written:
        """Return the chronicle before the entry *cut* of *history*, in *room* tokens by *meter*."""
        with self.lend(history) as chronicle:
            return chronicle.write(room, meter=meter, n_entries=self.count_before(history, cut))

    @contextmanager
    def lend(self, history: History) -> Iterator[Chronicle]:
        """Lend the chronicle of *history*, or of a path that goes on from it, to one thread at a time."""
        with self._lock:
            self.follow(history)
            yield self._chronicle

    def view_of(self, given: EngineInput) -> int:
        """Return the tokens that the conversation takes after a compaction, 0 for an unknown window."""
        return int(self.view_share * given.window)

    def room_of(self, given: EngineInput, plan: CompactionPlan, limit: int) -> int:
        """Return the tokens of the chronicle of a compaction with *plan* below *limit*, 0 for none."""
        view = self.view_of(given) or plan.dropped_tokens
        room = max(view - plan.kept_tokens, view // _LEAST_SHARE)
        most = plan.dropped_tokens // _FOLDED_SHARE
        below = limit - plan.kept_tokens - given.overhead_tokens if limit else 2 * room
        return max(0, min(room, most, below // 2))

    def add_to_plan(
        self, plan: CompactionPlan, planned_by: SessionEngine, given: EngineInput, limit: int
    ) -> CompactionPlan:
        """Return *plan*, which *planned_by* made, with its tail thinned and the chronicle below *limit*."""
        if not plan.n_dropped:
            return plan
        plan = thin_plan(plan, planned_by, given.history, self.view_of(given))
        room = self.room_of(given, plan, limit)
        head = planned_by.weigh([Entry(note_before(given.history), "summary")])
        least = plan.kept_tokens + given.overhead_tokens
        note = head
        if given.summarizer_card is not None:
            projected = min(plan.projected_tokens - least, plan.dropped_tokens // _FOLDED_SHARE)
            note = max(head, projected)
        high = min(plan.pre_tokens, max(plan.high_tokens, least + head) + room + _ROUNDING_TOKENS)
        low = min(plan.low_tokens, least + head - _ROUNDING_TOKENS)
        return replace(
            plan,
            low_tokens=low,
            projected_tokens=max(low, min(high, least + room + note)),
            high_tokens=max(low, high),
        )

    def follow(self, history: History) -> None:
        """Take in *history*; a path that grew out of the one before costs its new entries."""
        originals = history.originals()
        added = originals.since(self._known)
        if added is None:
            pairs = zip(self._known, originals, strict=False)
            differ = (place for place, (one, other) in enumerate(pairs) if not is_same(one, other))
            n_shared = next(differ, min(len(self._known), len(originals)))
            if n_shared < len(self._known):
                self._begin()
                n_shared = 0
            added = originals[n_shared:]
        self._known = originals
        for entry in map(as_chronicled, added):
            if entry.kind != "note":
                self._chronicle.add(entry)
                self.entries.append(entry)
                self._places[entry.node_id] = len(self.entries) - 1

    def reaches(self, history: History) -> bool:
        """Return whether the known path goes on from *history*, or is the same."""
        originals = history.originals()
        return len(originals) <= len(self._known) and all(map(is_same, originals, self._known))

    def count_before(self, history: History, cut: int) -> int:
        """Return how many entries of the chronicle stand before the entry *cut* of *history*."""
        kept = [entry for entry in history[cut:] if entry.kind not in ("note", "summary")]
        for entry in kept:
            for node in chain(entry.origin[:1], (entry.node_id,)):
                if node and node in self._places:
                    return self._places[node]
        return max(0, len(self.entries) - len(kept))


def is_same(one: Entry, other: Entry) -> bool:
    return one is other or bool(one.node_id and one.node_id == other.node_id)


def limit_of(gate: Gate, request: CompactionRequest) -> int:
    """Return the limit that a compaction must reach; a forced one need only save something, and has 0."""
    return 0 if request.force else gate.limit


def as_chronicled(entry: Entry) -> Entry:
    """Return *entry* as the chronicle takes it; a summary of entries that are not stored is a text."""
    if entry.kind == "summary" or (entry.kind == "file" and entry.origin):
        return replace(entry, kind="branch", origin=())
    return entry


def fold_without_note(planned: PlannedCompaction, reason: str | None = None) -> CompactionResult:
    """Return the result of a compaction without a note of a model; *reason* is why there is none."""
    plan, given = planned.plan, planned.given
    kept = kept_turns(plan, given.history)
    head = note_before(given.history)
    entries = compacted_entries(given.history, plan.cut, head, kept, pinned=plan.pinned)
    return CompactionResult(
        entries=entries,
        cut=plan.cut,
        dropped_count=plan.n_dropped,
        pre_tokens=plan.pre_tokens,
        post_tokens=given.overhead_tokens + planned.engine.weigh(entries),
        summary="",
        summary_source="localFallback",
        fallback_reason=reason,
        microcompacted=plan.microcompact.blanked,
    )


def note_before(history: History) -> UserTurn:
    """Return the summary of *history* without its chronicle: the note that stands; else a heading.

    Summaries stand at the beginning, beside the files that came back with them.
    """
    for entry in takewhile(lambda entry: entry.kind in ("summary", "file"), history):
        if entry.kind == "summary" and entry.origin:
            blocks = [block for block in texts_of_compaction(entry) if not is_chronicle(block)]
            if blocks:
                return UserTurn(tuple(blocks))
    return UserTurn((TextBlock(DIGEST_HEADER),))


def texts_of_compaction(summary: Entry) -> tuple[TextBlock, ...]:
    """Return the texts of *summary* as its compaction wrote them."""
    blocks = (block for block in summary.turn.blocks if isinstance(block, TextBlock))
    texts = (block.text.partition(BACK_IN_VIEW)[0] for block in blocks)
    return tuple(TextBlock(text) for text in texts if text)


def is_chronicle(block: Block) -> bool:
    """Whether *block* is the chronicle in a summary."""
    return isinstance(block, TextBlock) and block.text.startswith((HEADER[:_MARK_CHARS], INDEX_HEADER))


def chronicle_text(view: Iterable[Entry]) -> str:
    """Return the chronicle in the summary of *view*, empty for none."""
    blocks = (block for entry in view if entry.kind == "summary" for block in entry.turn.blocks)
    return next((block.text for block in blocks if isinstance(block, TextBlock) and is_chronicle(block)), "")


async def keep_chronicle(
    planned: PlannedCompaction, result: CompactionResult, keeping: Keeping
) -> CompactionResult:
    """Return *result* with the chronicle of the folded entries in its summary.

    Args:
        planned: the compaction.
        result: its result so far; one without a summary is returned as it is.
        keeping: the chronicle of the session.
    """
    if not result.dropped_count or result.entries[0].kind != "summary":
        return result
    return await asyncio.to_thread(add_chronicle, planned, result, keeping.chronicle)


def add_chronicle(
    planned: PlannedCompaction, result: CompactionResult, chronicle: SessionChronicle
) -> CompactionResult:
    """Return *result* with the chronicle in its summary; without the note where both do not fit."""
    engine, given, plan = planned.engine, planned.given, planned.plan
    limit = limit_of(planned.gate, planned.request)
    result = thin_result(result, engine, chronicle.view_of(given))
    room = chronicle.room_of(given, plan, limit)
    # A long note may have left no more than a token of what was saved.
    most = min(plan.high_tokens, limit or plan.high_tokens, result.pre_tokens - 1)
    if result.summary_source == "model" and most - result.post_tokens < room // 2:
        bare = without_note(planned, result)
        if bare.post_tokens < result.post_tokens:
            result = replace(bare, fallback_reason=SUMMARY_TOO_LONG)
    room = min(room, most - result.post_tokens)
    head = result.entries[0]
    before, asked = engine.weigh([head]), room

    def with_text(text: str) -> Entry:
        return replace(head, turn=UserTurn((*head.turn.blocks, TextBlock(text))))

    for _ in range(_ATTEMPTS):
        written = chronicle.write(
            given.history, result.cut, asked, lambda text: engine.weigh([with_text(text)]) - before
        )
        text = written.text
        if not text:
            break
        whole = with_text(text)
        weight = engine.weigh([whole]) - before
        if weight <= room:
            return replace(
                result,
                entries=(whole, *result.entries[1:]),
                post_tokens=result.post_tokens + weight,
                summary=result.summary or text,
            )
        asked = min(asked, written.tokens) * room // (weight + 1)
    return result


def without_note(planned: PlannedCompaction, result: CompactionResult) -> CompactionResult:
    """Return *result* with the note of the summary before in place of its own."""
    head = replace(result.entries[0], turn=note_before(planned.given.history))
    gained = planned.engine.weigh([result.entries[0]]) - planned.engine.weigh([head])
    return replace(
        result,
        entries=(head, *result.entries[1:]),
        post_tokens=result.post_tokens - gained,
        summary="",
        summary_source="localFallback",
    )

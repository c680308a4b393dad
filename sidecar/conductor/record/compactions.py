"""Compaction records: a compaction, or the plan of one, as it is stored and sent to clients.

The functions make values of values. The log of a session's compactions holds the newest record of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sidecar.conductor.contract import Compaction, Cut, Dropped, Kept, Plan, Projected
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionResult,
    EngineInput,
)
from sidecar.conductor.errors import CompactionNotFound
from sidecar.conductor.records import from_record
from sidecar.conversation import History
from sidecar.llmgateway.contract import TextBlock
from sidecar.runtime.memory import LiveCompaction

Trigger: TypeAlias = Literal["manual", "auto", "overflow", "expand"]
"""Why a compaction is made: a client asked, the gate was over, or the provider refused the size.

``expand`` is the opposite of one, which is recorded alike: originals came back into view.
"""


def describe_plan(plan: Plan, found: CompactionPlan, history: History, *, detail: bool) -> Plan:
    """Return *plan* with all that the engine *found*.

    With *detail* it has the prompt and the ids of the nodes that are dropped, as long as the conversation is.
    """
    dropped = tuple(history[index].node_id for index in found.dropped) if detail else ()
    described = replace(
        plan,
        cut=Cut(history.node_at(found.cut), found.cut),
        pre_tokens=found.pre_tokens,
        dropped=Dropped(found.n_dropped, found.dropped_tokens, dropped),
        kept=Kept(len(history) - found.cut + len(found.pinned), found.kept_tokens),
        microcompact=found.microcompact,
        prompt=found.prompt() if detail else None,
    )
    return with_size(described, found.projected_tokens, found.low_tokens, found.high_tokens)


def with_size(plan: Plan, tokens: int, low: int, high: int) -> Plan:
    """Return *plan* with *tokens* as the size of the next request after it, and the bounds of that size."""
    window = plan.gate.window
    pct = round(100 * tokens / window, 1) if window else 0.0
    return replace(plan, projected=Projected(tokens, pct, low, high))


def begin(
    compaction_id: str, engine: str, trigger: Trigger, *, history: History, pre_tokens: int
) -> Compaction:
    """Return the record of a compaction that has just begun with *pre_tokens* in the next request."""
    return Compaction(
        compaction_id=compaction_id,
        engine=engine,
        trigger=trigger,
        status="in_progress",
        pre_tokens=pre_tokens,
        pre_count=len(history),
        dropped_count=0,
        cut=0,
        microcompacted=0,
        before_head=history.head,
        undoable=False,
    )


def complete(
    begun: Compaction,
    given: EngineInput,
    result: CompactionResult,
    *,
    head: str | None,
    post_tokens: int,
    duration_ms: int,
) -> Compaction:
    """Return *begun* with *result*; *head* and *post_tokens* are of the conversation after it."""
    return replace(
        begun,
        status="completed",
        reason=result.fallback_reason,
        post_tokens=post_tokens,
        post_count=len(result.entries),
        dropped_count=result.dropped_count,
        kept_from=given.history.node_at(result.cut),
        cut=result.cut,
        microcompacted=result.microcompacted,
        rehydrated=tuple(file.uri for file in result.restored),
        summary_source=result.summary_source,
        summary=result.summary or None,
        after_head=head,
        undoable=begun.before_head is not None,
        duration_ms=duration_ms,
        info={
            "durationMs": duration_ms,
            **figures_of(begun.pre_tokens, post_tokens, given, result),
            **(result.info or {}),
        },
        loss=result.loss,
    )


def figures_of(before: int, after: int, given: EngineInput, result: CompactionResult) -> dict[str, Any]:
    """Return the figures that are recorded for every engine; counts are entries.

    *before* and *after* are the sizes of the next request, of which only the turns count here.
    """
    cut, n_entries = result.cut, len(given.history)
    first, kept_first = (given.history[at].kind if at < n_entries else None for at in (0, cut))
    return {
        "tokensBefore": before - given.overhead_tokens,
        "tokensAfter": after - given.overhead_tokens,
        "messagesBefore": n_entries,
        "messagesAfter": len(result.entries),
        "compactedCount": result.dropped_count,
        "keptCount": n_entries - result.dropped_count,
        "isSplitTurn": cut > 0 and kept_first not in ("user", "summary"),
        "isIncremental": cut > 0 and first == "summary",
        "summaryLen": len(result.summary),
    }


def complete_backstop(begun: Compaction, done: LiveCompaction, kept_from: str | None) -> Compaction:
    """Return *begun* as the agent's own compaction; its branch is not stored yet."""
    first = done.summary.blocks[0]
    return replace(
        begun,
        status="completed",
        dropped_count=done.cut,
        cut=done.cut,
        kept_from=kept_from,
        summary_source="model" if done.source == "model" else "localFallback",
        summary=first.text if isinstance(first, TextBlock) else "",
        undoable=begun.before_head is not None,
        info={"tokensBefore": done.tokens_before, "tokensAfter": done.tokens_after},
    )


def undo(target: Compaction, head: str | None) -> Compaction:
    """Return *target* as taken back, with *head* as that of the conversation; it has no size after it."""
    return replace(
        target, status="undone", undoable=False, post_tokens=None, post_count=None, after_head=head
    )


def with_undoable_now(compactions: Sequence[Compaction], history: History) -> tuple[Compaction, ...]:
    """Return *compactions*, oldest first, with ``undoable`` as an undo would find it now.

    A later compaction or a rewind makes one of before impossible to undo, until that is undone itself.
    """
    ids = frozenset(history.node_ids)
    return tuple(
        replace(done, undoable=done.undoable and done.after_head in ids and not left_history_unchanged(done))
        for done in compactions
    )


def left_history_unchanged(done: Compaction) -> bool:
    """Whether *done* left the stored conversation as it was, as some engines of earlier versions did."""
    return done.before_head is not None and done.before_head == done.after_head


class CompactionLog:
    """The compactions of one session, oldest first.

    Attributes:
        running: the compaction that runs now, None for none.
        begun: the ids of all compactions of this process, also without an effect.
    """

    def __init__(self, sid: str) -> None:
        self._sid = sid
        self._done: dict[str, Compaction] = {}
        self.running: Compaction | None = None
        self.begun: set[str] = set()

    @property
    def all(self) -> tuple[Compaction, ...]:
        """Every compaction so far, oldest first, the running one last."""
        return (*self._done.values(), *([self.running] if self.running is not None else []))

    def add(self, done: Compaction) -> None:
        """Add *done*, in the place of an earlier record of the same compaction."""
        self._done[done.compaction_id] = done

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take over the compactions among the *records* of the store; the newest record of one stands."""
        for record in records:
            if record.get("type") == "compaction" and (done := from_record(Compaction, record)) is not None:
                self.add(done)

    def find(self, compaction_id: str | None) -> Compaction:
        """Return a compaction, the newest that can be undone for None. Raises CompactionNotFound."""
        if compaction_id is not None:
            found = [each for each in self.all if each.compaction_id == compaction_id]
        else:
            found = [each for each in self.all if each.undoable]
        if not found:
            raise CompactionNotFound(self._sid, compaction_id)
        return found[-1]

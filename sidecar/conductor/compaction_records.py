"""What becomes of a compaction, as the record that clients are told and the store keeps. Pure values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sidecar.conductor.branching import node_kind
from sidecar.conductor.contract import Compaction, Gate
from sidecar.conductor.engines.base import Condensed, EngineInput, Standing
from sidecar.llmgateway.contract import TextBlock
from sidecar.runtime.memory import LiveCompaction

__all__ = [
    "Trigger",
    "as_standing",
    "backstopped",
    "begin",
    "completed",
    "is_shown_only",
    "timed",
    "undone",
]

Trigger: TypeAlias = Literal["manual", "auto", "overflow"]
"""Why a compaction is made: a client asked, the gate was over, or the model's window was."""


def begin(
    compaction_id: str, engine: str, trigger: Trigger, given: EngineInput, head: str | None
) -> Compaction:
    """Return the record of a compaction that has just begun."""
    return Compaction(
        compaction_id=compaction_id,
        engine=engine,
        trigger=trigger,
        status="in_progress",
        pre_tokens=given.context_tokens or given.overhead_tokens,
        pre_count=len(given.turns),
        dropped_count=0,
        cut=0,
        microcompacted=0,
        before_head=head,
        undoable=False,
    )


def completed(
    begun: Compaction, given: EngineInput, outcome: Condensed, kept_from: str | None, head: str | None
) -> Compaction:
    """Return *begun* as its engine ended it for *given*; *head* is where the conversation stands now."""
    return replace(
        begun,
        status="completed",
        reason=outcome.fallback_reason,
        pre_tokens=outcome.pre_tokens,
        post_tokens=outcome.post_tokens,
        post_count=len(outcome.turns),
        dropped_count=outcome.dropped_count,
        kept_from=kept_from,
        cut=outcome.cut,
        microcompacted=outcome.microcompacted,
        rehydrated=tuple(file.uri for file in outcome.restored),
        summary_source=outcome.summary_source,
        summary=outcome.summary or None,
        after_head=head,
        undoable=begun.before_head is not None,
        info={**_info(given, outcome), **(outcome.info or {})},
    )


def timed(done: Compaction, duration_ms: int) -> Compaction:
    """Return *done* with how long it took, in its record too unless that has a time of its own."""
    info = None if done.info is None else {"durationMs": duration_ms, **done.info}
    return replace(done, duration_ms=duration_ms, info=info)


def _info(given: EngineInput, outcome: Condensed) -> dict[str, Any]:
    """Return the record that seed 004 keeps of a compaction, for every engine: counts are turns."""
    first, cut, n_turns = (
        given.standing.cut if given.standing else 0,
        outcome.cut,
        len(given.turns),
    )
    folded = given.turns[first:cut]
    kept_first = node_kind(given.turns[cut]) if cut < n_turns else None
    return {
        "tokensBefore": outcome.pre_tokens - given.overhead_tokens,
        "tokensAfter": outcome.post_tokens - given.overhead_tokens,
        "messagesBefore": n_turns - first,
        "messagesAfter": len(outcome.turns),
        "compactedCount": outcome.dropped_count,
        "keptCount": n_turns - first - outcome.dropped_count,
        "isSplitTurn": bool(folded) and kept_first not in ("user", "summary"),
        "isIncremental": given.standing is not None or any(node_kind(turn) == "summary" for turn in folded),
        "summaryLen": len(outcome.summary),
    }


def backstopped(begun: Compaction, done: LiveCompaction, kept_from: str | None) -> Compaction:
    """Return *begun* as the agent's own compaction, whose branch is not stored yet."""
    first = done.summary.blocks[0]
    return replace(
        begun,
        status="completed",
        pre_tokens=done.tokens_before,
        post_tokens=done.tokens_after,
        dropped_count=done.cut,
        cut=done.cut,
        kept_from=kept_from,
        summary_source="model" if done.source == "model" else "localFallback",
        summary=first.text if isinstance(first, TextBlock) else "",
        undoable=begun.before_head is not None,
    )


def undone(target: Compaction, gate: Gate, n_turns: int, head: str | None) -> Compaction:
    """Return *target* as taken back: *n_turns* are there again, which *gate* has weighed."""
    done = replace(target, status="undone", trigger="undo", undoable=False)
    return replace(done, post_tokens=gate.tokens, post_count=n_turns, after_head=head)


def is_shown_only(done: Compaction) -> bool:
    """Whether *done* has changed what the model is sent and not the stored conversation."""
    return done.before_head is not None and done.before_head == done.after_head


def as_standing(done: Compaction) -> Standing:
    """Return *done*, which only the view shows, as its engine is told of it."""
    return Standing(done.cut, done.summary or "", done.info or {})

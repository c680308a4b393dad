"""The shared part of the engines of the rooms: settings as limits, and events as a view of turns.

These engines leave the stored conversation whole and choose the entries of the next request. Tokens are those
of the rooms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sidecar.conductor.window.engines.contract import CompactionRequest, EngineInput, View, entry_with_turn
from sidecar.conductor.window.engines.room import SessionRoom
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import Turn
from sidecar.rooms import RoomEvent
from sidecar.rooms.memory.budget import MemoryLimits, fit_items

_DEFAULTS: Final = MemoryLimits(1)
_LEAST_SHARE: Final = 10
"""One in so many parts of the window is the conversation's, however large the rest of a request is."""

_ANSWER_SHARE: Final = 4
_SUMMARY_SHARE: Final = 4


def setting(policy: Mapping[str, float], name: str, default: float, *, least: float) -> float:
    """Return the value of *name* in *policy*, never below *least*.

    >>> setting({"maxEvents": 0}, "maxEvents", 50, least=2), setting({}, "maxEvents", 50, least=2)
    (2, 50)
    """
    return max(least, policy.get(name, default))


def limits_of(given: EngineInput, request: CompactionRequest) -> MemoryLimits | None:
    """Return the part of the window for the conversation, None where no window is known.

    The overhead and room for the answer are taken off. The policy names ``reserveTokens``, ``tier1Ratio``,
    ``tier2Ratio`` (or ``triggerRatio``), ``truncateChars``, ``summaryMaxTokens`` and ``minEvents``.
    """
    if given.card is None or given.card.context_window <= 0:
        return None
    window, policy = given.card.context_window, request.policy
    answer = min(given.card.max_output_tokens, window // _ANSWER_SHARE)
    reserve = setting(policy, "reserveTokens", answer, least=0)
    room = max(int(window - reserve - given.overhead_tokens), window // _LEAST_SHARE, 1)
    trigger = policy.get("triggerRatio", _DEFAULTS.tier2_ratio)
    summary = setting(policy, "summaryMaxTokens", _DEFAULTS.summary_max_tokens, least=1)
    return MemoryLimits(
        room,
        tier1_ratio=min(1.0, setting(policy, "tier1Ratio", _DEFAULTS.tier1_ratio, least=0)),
        tier2_ratio=min(1.0, setting(policy, "tier2Ratio", trigger, least=0)),
        truncate_chars=int(setting(policy, "truncateChars", _DEFAULTS.truncate_chars, least=1)),
        summary_max_tokens=max(1, min(int(summary), room // _SUMMARY_SHARE)),
        min_events=int(setting(policy, "minEvents", _DEFAULTS.min_events, least=0)),
    )


def fit_event(event: RoomEvent, max_tokens: int) -> RoomEvent:
    """Return *event*, or its beginning with a marker where it alone takes more than *max_tokens*."""
    return fit_items([], [event], max_tokens)[1][0]


def view_of(room: SessionRoom, notes: Sequence[Turn], events: Iterable[RoomEvent], first: int) -> View:
    """Return the view that shows *notes* and then *events*, each whole or as a memory shortened it.

    *first* is the entry from which the conversation is shown on; events before it are pinned.
    """
    ordered = sorted(events, key=lambda event: event.index)
    entries = [Entry(turn, "summary") for turn in notes]
    for event in ordered:
        entries += map(entry_with_turn, room.entries_of(event), room.turns_to_send(event))
    return View(entries, first, tuple(event.index for event in ordered if event.index < first))

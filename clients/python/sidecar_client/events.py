"""What the daemon tells unasked: the events of sessions, and everything else as plain notifications.

Payloads stay the JSON the daemon sent, so that a kind this client does not know gets through.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "GAP",
    "UNREAD",
    "ClientEvent",
    "Notification",
    "event_of",
    "gap_of",
    "notification_gap",
    "unread_gap",
]

GAP: Final = "gap"
"""The kind of the notice that stands for lost events: ``data = {from, to, reason}``."""

UNREAD: Final = "unread"
"""The reason of a gap that this client made, because nobody read for too long; any kind may be lost."""


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """One event of a session.

    Attributes:
        sid: the session.
        seq: its number in the session's log; for a gap the last one lost.
        at: epoch milliseconds; for a gap when it was noticed.
        kind: ``textDelta``, ``toolStarted``, ``settled``, ...; ``gap`` where events are lost.
        data: the payload, as sent.
        turn_id: the turn it belongs to, if any.
    """

    sid: str
    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification that is no session event; *method* is ``gap`` where some are lost."""

    method: str
    params: Mapping[str, Any]


def event_of(params: Mapping[str, Any]) -> ClientEvent:
    """Return the event in the params of ``sidecar/event``. Raises KeyError for a missing field."""
    return ClientEvent(
        params["sid"],
        params["seq"],
        params["at"],
        params["kind"],
        params.get("data", {}),
        params.get("turnId"),
    )


def gap_of(params: Mapping[str, Any]) -> ClientEvent:
    """Return the notice in the params of ``sidecar/gap``. Raises KeyError for a missing field."""
    data = {"from": params["from"], "to": params["to"], "reason": params.get("reason", "")}
    return ClientEvent(params["sid"], params["to"], _now_ms(), GAP, data)


def unread_gap(sid: str) -> Callable[[int, int], ClientEvent]:
    """Return the maker of notices for events of *sid* that this client let go."""
    return lambda first, last: gap_of({"sid": sid, "from": first, "to": last, "reason": UNREAD})


def notification_gap(first: int, last: int) -> Notification:
    """Return the notice for notifications that this client let go."""
    return Notification(GAP, {"count": last - first + 1, "reason": UNREAD})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

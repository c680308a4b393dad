"""Keeps the latest snapshot that a run has published (R20), and nothing before it."""

from __future__ import annotations

from sidecar.runtime.contract import FaultedEvent, RunEvent, RunSnapshot, SettledEvent, SnapshotEvent
from sidecar.runtime.ledger.bus import RunLedger, Unsubscribe

__all__ = ["SnapshotAccumulator"]


class SnapshotAccumulator:
    """Folds the events that bear a snapshot into the newest one.

    >>> SnapshotAccumulator().get_snapshot() is None
    True
    """

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: RunSnapshot | None = None

    def observe(self, event: RunEvent) -> None:
        """Take note of *event*; one without a snapshot changes nothing."""
        if isinstance(event, SnapshotEvent | SettledEvent | FaultedEvent):
            self._latest = event.snapshot

    def get_snapshot(self) -> RunSnapshot | None:
        """Return the newest snapshot, or None before the first one."""
        return self._latest

    def reset(self) -> None:
        """Forget what was seen."""
        self._latest = None

    def attach(self, ledger: RunLedger) -> Unsubscribe:
        """Observe every event of *ledger*, and return how to stop that."""
        return ledger.subscribe(self.observe)

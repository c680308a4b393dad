"""The ledger of a run: it publishes each event to every subscriber, at once and in order.

No event is kept; a :class:`SnapshotAccumulator` keeps the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeAlias

from sidecar.runtime.contract import (
    FaultedEvent,
    RunEvent,
    RunEventHandler,
    RunSnapshot,
    SettledEvent,
    SnapshotEvent,
)

__all__ = ["RunEventHandler", "RunLedger", "SnapshotAccumulator", "Unsubscribe", "notify"]

P = ParamSpec("P")

Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; may be called any number of times."""


def notify(callback: Callable[P, object] | None, *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a host's *callback*, if there is one. Its ``Exception`` is swallowed: no run depends on it."""
    if callback is not None:
        with suppress(Exception):
            callback(*args, **kwargs)


class RunLedger:
    """A synchronous fan-out. One handler is one subscription, however often it subscribes.

    >>> from sidecar.runtime.contract import TextDeltaEvent
    >>> ledger = RunLedger()
    >>> unsubscribe = ledger.subscribe(print)
    >>> ledger.publish(TextDeltaEvent("hi"))
    TextDeltaEvent(delta='hi')
    """

    __slots__ = ("_handlers",)

    def __init__(self) -> None:
        self._handlers: dict[RunEventHandler, None] = {}

    @property
    def size(self) -> int:
        """How many handlers are subscribed."""
        return len(self._handlers)

    def subscribe(self, handler: RunEventHandler) -> Unsubscribe:
        """Call *handler* with every event from now on, and return how to stop that."""
        self._handlers.setdefault(handler)

        def unsubscribe() -> None:
            self._handlers.pop(handler, None)

        return unsubscribe

    def publish(self, event: RunEvent) -> None:
        """Call every handler that is subscribed now, also one that is dropped meanwhile.

        A handler's ``Exception`` is swallowed: a run never depends on its subscribers, and one handler
        cannot keep an event from the others.
        """
        for handler in tuple(self._handlers):
            with suppress(Exception):
                handler(event)

    def clear(self) -> None:
        """Drop every handler."""
        self._handlers.clear()


class SnapshotAccumulator:
    """Keeps the newest snapshot that a run has published, and nothing before it.

    >>> SnapshotAccumulator().get_snapshot() is None
    True
    """

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: RunSnapshot | None = None

    def observe(self, event: RunEvent) -> None:
        """Keep the snapshot of *event*; an event without one changes nothing."""
        if isinstance(event, SnapshotEvent | SettledEvent | FaultedEvent):
            self._latest = event.snapshot

    def get_snapshot(self) -> RunSnapshot | None:
        """Return the newest snapshot, or None before the first one."""
        return self._latest

    def reset(self) -> None:
        """Forget the snapshot."""
        self._latest = None

    def attach(self, ledger: RunLedger) -> Unsubscribe:
        """Observe every event of *ledger*, and return how to stop that."""
        return ledger.subscribe(self.observe)

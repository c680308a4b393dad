"""The hub that tells every subscriber each event of a run, at once and in order (R20). It keeps no event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sidecar.runtime.contract import RunEvent, RunEventHandler

__all__ = ["RunEventHandler", "RunLedger", "Unsubscribe"]

Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; may be called any number of times."""


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
        self._handlers: tuple[RunEventHandler, ...] = ()

    @property
    def size(self) -> int:
        """How many handlers are subscribed."""
        return len(self._handlers)

    def subscribe(self, handler: RunEventHandler) -> Unsubscribe:
        """Tell *handler* every event from now on, and return how to stop that."""
        if handler not in self._handlers:
            self._handlers = (*self._handlers, handler)
        return lambda: self._drop(handler)

    def publish(self, event: RunEvent) -> None:
        """Tell *event* to those who are subscribed now, also to one who is dropped meanwhile.

        A handler's ``Exception`` is swallowed, so that one handler cannot keep the others from hearing.
        """
        for handler in self._handlers:
            _tell(handler, event)

    def clear(self) -> None:
        """Drop every handler."""
        self._handlers = ()

    def _drop(self, handler: RunEventHandler) -> None:
        self._handlers = tuple(kept for kept in self._handlers if kept != handler)


def _tell(handler: RunEventHandler, event: RunEvent) -> None:
    try:
        handler(event)
    except Exception:
        # Swallowed by contract (R20): a run never depends on who listens to it.
        return

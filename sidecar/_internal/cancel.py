"""Cooperative cancellation: a token that is polled or listened to, and passed on from parent to child.

A token stops nothing by force: the code that holds it must check it. The problem of a chain is memory. A
session's token lives for hours and each call of a model makes a child, so a parent that held its children
would keep them all; a parent that held none would lose one that has a listener but no other owner. So
a parent holds a child weakly, and strongly only while a listener waits on it or on a descendant.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TypeAlias

Callback: TypeAlias = Callable[[], None]
"""A listener, called once and without arguments when its token is cancelled."""


class CancelledByToken(Exception):
    """The token that guards this work was cancelled.

    A plain ``Exception``, so that it is never mistaken for ``asyncio.CancelledError``.
    ``reason`` is the argument of :meth:`CancelToken.cancel`, or None.
    """

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "cancelled")
        self.reason = reason


class CancelToken:
    """A one-shot, thread-safe cancellation flag with listeners and children.

    >>> token = CancelToken()
    >>> child = token.child()
    >>> token.cancel("user pressed esc")
    >>> child.cancelled, child.reason
    (True, 'user pressed esc')
    """

    __slots__ = (
        "__weakref__",
        "_anchored",
        "_cancelled",
        "_children",
        "_listeners",
        "_lock",
        "_parent",
        "_reason",
    )

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._cancelled = False
        self._reason: str | None = None
        self._listeners: list[Callback] = []
        self._children: weakref.WeakSet[CancelToken] = weakref.WeakSet()
        self._anchored: set[CancelToken] = set()
        self._parent: CancelToken | None = None

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called here or on an ancestor."""
        return self._cancelled

    @property
    def reason(self) -> str | None:
        """The reason of the first :meth:`cancel`, or None."""
        return self._reason

    def cancel(self, reason: str | None = None) -> None:
        """Cancel once, then call the listeners and cancel the children; later calls do nothing.

        A listener's ``Exception`` is swallowed, so that it does not prevent the other calls.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            self._reason = reason
            listeners, self._listeners = self._listeners, []
            children = list(self._children)
            self._children.clear()
            self._anchored.clear()
        self._update_anchors()
        for listener in listeners:
            _call_quietly(listener)
        for child in children:
            child.cancel(reason)

    def add_callback(self, cb: Callback) -> Callback:
        """Register *cb* and return its disposer, which may be called any number of times.

        A call of the disposer removes one registration equal to *cb*, if there is one left. On a cancelled
        token *cb* is called at once and the disposer does nothing.
        """
        with self._lock:
            live = not self._cancelled
            if live:
                self._listeners.append(cb)
        if not live:
            _call_quietly(cb)
            return lambda: None
        if self._parent is not None:
            self._update_anchors()

        def dispose() -> None:
            with self._lock:
                if cb in self._listeners:
                    self._listeners.remove(cb)
            if self._parent is not None:
                self._update_anchors()

        return dispose

    def child(self) -> CancelToken:
        """Return a token that is cancelled with this one, but not the other way round."""
        child = CancelToken()
        with self._lock:
            if not self._cancelled:
                child._parent = self
                self._children.add(child)
                return child
        child.cancel(self._reason)
        return child

    def raise_if_cancelled(self) -> None:
        """Raise :class:`CancelledByToken` when cancelled, else return."""
        if self._cancelled:
            raise CancelledByToken(self._reason)

    def _update_anchors(self) -> None:
        """Make each ancestor hold the next token down exactly as long as listeners wait below it.

        Both locks are held for the decision, so that a listener that is added while another one is removed
        never ends up on a token without an owner.
        """
        token: CancelToken = self
        while (parent := token._parent) is not None:
            with parent._lock, token._lock:
                if token._listeners or token._anchored:
                    parent._anchored.add(token)
                else:
                    parent._anchored.discard(token)
            token = parent


def _call_quietly(listener: Callback) -> None:
    try:
        listener()
    except Exception:
        # Swallowed by design: the broadcast reaches every listener.
        return

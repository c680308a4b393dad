"""Cooperative cancellation: one token, polled or listened to, chained from parent to child.

Seed 000, facts M1 to M4. Nothing here stops a task by force; whoever holds a token looks at it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Callback", "CancelToken", "CancelledByToken"]

Callback: TypeAlias = Callable[[], None]
"""A listener: called once, without arguments, when its token is cancelled."""


class CancelledByToken(Exception):
    """The token that guards this work was cancelled.

    A plain ``Exception``, so that it is never mistaken for ``asyncio.CancelledError``.
    ``reason`` is what was given to :meth:`CancelToken.cancel`, or None.
    """

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "cancelled")
        self.reason = reason


class CancelToken:
    """A one-shot, thread-safe cancellation flag with listeners and children.

    A parent holds a child weakly until the child, or a descendant of it, has listeners: a long-lived
    parent keeps nothing of the children that are done (failure B-R19).

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
        """What the first :meth:`cancel` gave as its reason."""
        return self._reason

    def cancel(self, reason: str | None = None) -> None:
        """Flip the token once, then tell listeners and children; later calls do nothing.

        A listener's ``Exception`` is swallowed, so that one listener cannot keep the others from hearing.
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
        self._settle_hold()
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
            return _nothing
        self._settle_hold()
        return lambda: self._remove(cb)

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

    def _remove(self, cb: Callback) -> None:
        with self._lock:
            if cb in self._listeners:
                self._listeners.remove(cb)
        self._settle_hold()

    def _settle_hold(self) -> None:
        """Make each ancestor hold the next one down for exactly as long as listeners wait below it.

        Both locks are held while that is decided: a listener that comes while another one leaves is never
        left on a token that nobody holds.
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
        # Swallowed by design (M1): the broadcast reaches every listener.
        return


def _nothing() -> None:
    return None

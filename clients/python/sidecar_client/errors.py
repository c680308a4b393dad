"""What can go wrong between a script and the daemon.

SidecarClientError
 +- SidecarRequestError   the daemon said no; the connection is fine
 +- UnexpectedAnswer      the answer has not the shape this client knows; the connection is fine
 +- EventsMissed          events were let go before they were read; the connection is fine
 +- ConnectionLost        the daemon is gone, or closed the connection; nothing more will come
     +- ProtocolViolation the daemon wrote what is not the protocol; the connection is given up
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ConnectionLost",
    "EventsMissed",
    "ProtocolViolation",
    "SidecarClientError",
    "SidecarRequestError",
    "UnexpectedAnswer",
]


class SidecarClientError(Exception):
    """Something went wrong between this client and the daemon."""


class SidecarRequestError(SidecarClientError):
    """The daemon refused a request, or failed at it.

    Attributes:
        code: the JSON-RPC code; ``kind`` tells more.
        kind: what went wrong, a stable camelCase word such as ``sessionNotFound``.
        retryable: whether the same request may succeed later.
        message: one sentence.
        hint: what to do next, or None.
        data: all the daemon said besides code and message.
    """

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        self.code = code
        self.message = message
        self.data = dict(data)
        self.kind = str(data.get("kind", "internal"))
        self.retryable = data.get("retryable") is True
        self.hint: str | None = data.get("hint")
        super().__init__(f"{message} [{self.kind}, {code}]" + (f"; {self.hint}" if self.hint else ""))


class UnexpectedAnswer(SidecarClientError):
    """The daemon's answer has not the shape this client knows: the two are of different versions."""


class EventsMissed(SidecarClientError):
    """Events were let go before they were read, so that waiting on could wait for ever."""

    def __init__(self, sid: str, first: int, last: int) -> None:
        super().__init__(
            f"events {first} to {last} of session {sid!r} were let go unread; "
            "read faster, or follow with events(), which goes on after a gap"
        )
        self.sid = sid
        self.first = first
        self.last = last


class ConnectionLost(SidecarClientError):
    """The daemon is gone, or has closed the connection.

    Attributes:
        reason: what was seen.
        exit_code: how the process ended, negative for a signal; None when unknown or not ours.
        stderr_tail: the end of what the process wrote to its standard error.
    """

    def __init__(self, reason: str, *, exit_code: int | None = None, stderr_tail: str = "") -> None:
        super().__init__(reason + (f"; its last words:\n{stderr_tail}" if stderr_tail else ""))
        self.reason = reason
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class ProtocolViolation(ConnectionLost):
    """The daemon wrote what is not the protocol; what follows cannot be understood."""

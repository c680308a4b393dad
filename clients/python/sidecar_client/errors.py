"""The errors between a script and the daemon.

SidecarClientError
 +- SidecarRequestError     the daemon refused a request; the connection is fine
 +- UnexpectedAnswerError   the answer has an unknown shape; the connection is fine
 +- EventsLost              events were dropped before they were read; the connection is fine
 +- ConnectionLost          the daemon is gone, or closed the connection; nothing more will come
     +- ProtocolError       the daemon's output is not valid; the connection is given up
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SidecarClientError(Exception):
    """Something went wrong between this client and the daemon."""


class SidecarRequestError(SidecarClientError):
    """The daemon refused a request, or failed at it.

    Attributes:
        code: the JSON-RPC code; ``kind`` tells more.
        kind: the kind of error, a stable camelCase word such as ``sessionNotFound``.
        retryable: whether the same request may succeed later.
        message: one sentence.
        hint: the next step, or None.
        data: the rest of the error object.
    """

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        self.code = code
        self.message = message
        self.data = dict(data)
        self.kind = str(data.get("kind", "internal"))
        self.retryable = data.get("retryable") is True
        self.hint: str | None = data.get("hint")
        super().__init__(f"{message} [{self.kind}, {code}]" + (f"; {self.hint}" if self.hint else ""))


class UnexpectedAnswerError(SidecarClientError):
    """The daemon's answer has an unknown shape: the two are of different versions."""


class EventsLost(SidecarClientError):
    """Events were dropped before they were read, so that waiting could take for ever."""

    def __init__(self, sid: str, first: int, last: int) -> None:
        super().__init__(
            f"events {first} to {last} of session {sid!r} were dropped unread; "
            "read faster, or follow with events(), which goes on after a gap"
        )
        self.sid = sid
        self.first = first
        self.last = last


class ConnectionLost(SidecarClientError):
    """The daemon is gone, or has closed the connection.

    Attributes:
        reason: the observed end of the connection.
        exit_code: of the process, negative for a signal; None when it is unknown.
        stderr_tail: the end of the standard error of the process.
    """

    def __init__(self, reason: str, *, exit_code: int | None = None, stderr_tail: str = "") -> None:
        super().__init__(reason + (f"; the end of its standard error:\n{stderr_tail}" if stderr_tail else ""))
        self.reason = reason
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class ProtocolError(ConnectionLost):
    """The daemon's output is not valid protocol, so that the rest cannot be understood."""

"""The errors of the store.

    SidecarError
    +-- SessionLockedError  another process, or another holder here, writes the session
    +-- LeaseLostError      another process has taken the session over
    +-- StoreUnavailable    the disk is full, read-only or gone
    +-- UnknownNodeError    the session has no such node (a ValueError as well)

After each of them the store is as it was; unwritten lines are kept in memory and written later.
"""

from __future__ import annotations

import errno
from typing import ClassVar

from sidecar._internal.errors import SidecarError


class SessionLockedError(SidecarError):
    """The session has another *writer*, the process *pid* of this machine."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, pid: int | None, writer: str | None = None) -> None:
        by = writer or ("another process" if pid is None else f"process {pid}")
        hint = "attach to the daemon that has it, or end that one; reading it needs no lock"
        if pid is None and writer is not None:
            hint = "read it here; load it once it is idle there; or work on it there: ssh HOST sidecar shim"
        super().__init__(f"session {session_id!r} is in use by {by}", hint=hint, sid=session_id, pid=pid)
        self.session_id = session_id
        self.pid = pid
        self.writer = by


class StoreUnavailable(SidecarError):
    """A session could not be read or written; unwritten lines wait for the next write.

    An empty id stands for the list of all sessions.
    """

    kind: ClassVar[str] = "storeUnavailable"
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, error: OSError) -> None:
        # Only the system's own words: a path must not cross the wire.
        reason = error.strerror or type(error).__name__
        hint = "nothing is lost: unwritten turns stay in memory and are written when the store works again"
        of = f" for session {session_id!r}" if session_id else ""
        super().__init__(f"the store fails{of}: {reason}", hint=hint, sid=session_id)
        self.session_id = session_id
        self.reason = reason


class TakenOverError(OSError):
    """The right to write a session was lost to *holder* before a write, so nothing was written.

    An append raises it; the caller of the writer gets a :class:`LeaseLostError`.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(errno.EBUSY, f"{holder} has taken the session over")
        self.holder = holder


class UnknownNodeError(SidecarError, ValueError):
    """The session has no node of that id."""

    kind: ClassVar[str] = "nodeNotFound"

    def __init__(self, session_id: str, node_id: str) -> None:
        super().__init__(f"session {session_id!r} has no node {node_id!r}", sid=session_id)
        self.session_id = session_id
        self.node_id = node_id

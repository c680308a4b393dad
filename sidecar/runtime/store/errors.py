"""The errors of the store.

    SidecarError
    +-- SessionLockedError  another process, or another holder here, writes the session
    +-- StoreUnavailable    the disk is full, read-only or gone
    +-- UnknownNodeError    the session has no such node (a ValueError as well)

After each of them the store is as it was; unwritten lines are kept in memory and written later.
"""

from __future__ import annotations

from typing import ClassVar

from sidecar._internal.errors import SidecarError


class SessionLockedError(SidecarError):
    """Somebody else writes the session; *pid* is its process, where that is known."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        hint = "attach to the daemon that has it, or end that one; reading it needs no lock"
        super().__init__(f"session {session_id!r} is in use by {who}", hint=hint, sid=session_id, pid=pid)
        self.session_id = session_id
        self.pid = pid


class StoreUnavailable(SidecarError):
    """A session could not be read or written; unwritten lines wait for the next write."""

    kind: ClassVar[str] = "storeUnavailable"
    retryable: ClassVar[bool] = True

    def __init__(self, session_id: str, error: OSError) -> None:
        # Only the system's own words: a path must not cross the wire.
        reason = error.strerror or type(error).__name__
        hint = "nothing is lost: unwritten turns stay in memory and are written when the store works again"
        super().__init__(f"the store fails for session {session_id!r}: {reason}", hint=hint, sid=session_id)
        self.session_id = session_id
        self.reason = reason


class UnknownNodeError(SidecarError, ValueError):
    """The session has no node of that id."""

    kind: ClassVar[str] = "nodeNotFound"

    def __init__(self, session_id: str, node_id: str) -> None:
        super().__init__(f"session {session_id!r} has no node {node_id!r}", sid=session_id)
        self.session_id = session_id
        self.node_id = node_id

"""What the daemon says and asks by itself: its notifications and its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ClosingNotification",
    "EditApplyParams",
    "EditApplyResult",
    "EventNotification",
    "FsChangedNotification",
    "GapNotification",
    "PermissionResolvedNotification",
    "SessionsChangedNotification",
]


@dataclass(frozen=True, slots=True)
class EventNotification:
    """One event of a session: *data* is what its *kind* carries.

    *seq* counts from 1 without gaps and goes on over processes; it is 0 for the past that a load sends again.
    """

    sid: str
    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class GapNotification:
    """Events that this client will not get: it was too slow (``slowClient``), or they are ``notKept``."""

    sid: str
    first: int = field(metadata={"wire": "from"})
    last: int = field(metadata={"wire": "to"})
    reason: str


@dataclass(frozen=True, slots=True)
class SessionsChangedNotification:
    """What ``sidecar/session/list`` returns has changed."""


@dataclass(frozen=True, slots=True)
class PermissionResolvedNotification:
    """A question is answered, or ran out; *outcome* is the option, or ``expired``, or ``cancelled``."""

    sid: str
    permission_id: str
    outcome: str
    by: str


@dataclass(frozen=True, slots=True)
class FsChangedNotification:
    """Files under a watch may have changed, in an editor or on disk; a folder stands for all below it."""

    sid: str
    watch_id: str
    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClosingNotification:
    """The daemon ends in so many milliseconds."""

    reason: str
    in_ms: int


@dataclass(frozen=True, slots=True)
class EditApplyParams:
    """An edit of open buffers, for a client without ``workspace/applyEdit``.

    *edit* is a WorkspaceEdit of the Language Server Protocol, with versioned ``documentChanges``.
    """

    label: str
    edit: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EditApplyResult:
    """Whether the edit is in the buffers; a buffer of another version is left alone."""

    applied: bool

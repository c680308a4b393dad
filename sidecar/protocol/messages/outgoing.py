"""Messages that the daemon sends by itself: notifications, and the requests that it makes to a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNotification:
    """One event of a session; *kind* decides the shape of *data*.

    *seq* counts from 1 and goes on across restarts. No number is ever used for two events: after a crash the
    count goes on far above the last one. It is 0 for past events that a load sends again.
    """

    sid: str
    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class GapNotification:
    """A range of events that this client will not get.

    *reason* is ``slowClient`` when it read too slowly, or ``notKept`` when they are no longer stored.
    """

    sid: str
    first: int = field(metadata={"wire": "from"})
    last: int = field(metadata={"wire": "to"})
    reason: str


@dataclass(frozen=True, slots=True)
class SessionsChangedNotification:
    """The result of ``sidecar/session/list`` has changed."""


@dataclass(frozen=True, slots=True)
class PermissionResolvedNotification:
    """The end of a question; *outcome* is the chosen option, ``expired`` or ``cancelled``."""

    sid: str
    permission_id: str
    outcome: str
    by: str


@dataclass(frozen=True, slots=True)
class FsChangedNotification:
    """The watched files that may have changed, in an editor or on disk; a folder stands for its contents."""

    sid: str
    watch_id: str
    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClosingNotification:
    """The end of the daemon, *in_ms* milliseconds from now."""

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
    """*applied* is true when the buffers have the edit; a buffer of another version must be left alone."""

    applied: bool

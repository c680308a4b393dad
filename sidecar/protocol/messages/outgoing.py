"""Messages that the daemon sends by itself: notifications, and the requests that it makes to a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar._internal.values import Value


class EventNotification(Value, kw_only=True):
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


class SessionsChangedNotification(Value):
    """The result of ``sidecar/session/list`` has changed."""


class PermissionResolvedNotification(Value):
    """The end of a question; *outcome* is the chosen option, ``expired`` or ``cancelled``."""

    sid: str
    permission_id: str
    outcome: str
    by: str


class FsChangedNotification(Value):
    """The watched files that may have changed, in an editor or on disk; a folder stands for its contents."""

    sid: str
    watch_id: str
    uris: tuple[str, ...]


class ClosingNotification(Value):
    """The end of the daemon, *in_ms* milliseconds from now."""

    reason: str
    in_ms: int


class EditApplyParams(Value):
    """An edit of open buffers, for a client without ``workspace/applyEdit``.

    *edit* is a WorkspaceEdit of the Language Server Protocol, with versioned ``documentChanges``.
    """

    label: str
    edit: Mapping[str, Any]


class EditApplyResult(Value):
    """*applied* is true when the buffers have the edit; a buffer of another version must be left alone."""

    applied: bool

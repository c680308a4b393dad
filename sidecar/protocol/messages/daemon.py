"""Messages about the daemon itself: how it is, its log, its schema, who listens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sidecar.conductor.contract import SessionSnapshot

__all__ = [
    "AttachParams",
    "AttachResult",
    "ChildInfo",
    "ClientInfo",
    "EventRange",
    "LogLine",
    "LogTailParams",
    "LogTailResult",
    "QueueCounts",
    "SchemaParams",
    "SchemaResult",
    "SessionCounts",
    "StatusResult",
    "TraceSetParams",
    "TraceSetResult",
    "WatchInfo",
]


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A connected client."""

    id: str
    name: str
    face: str


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Sessions in memory, and those at work."""

    loaded: int
    running: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The requests that came in and are not answered yet, and the bytes on their way out."""

    requests: int = field(metadata={"wire": "in"})
    out_bytes: int


@dataclass(frozen=True, slots=True)
class WatchInfo:
    """Who watches the disk: ``client``, ``watchfiles`` or ``none``."""

    backend: str
    roots: int
    dropped: int


@dataclass(frozen=True, slots=True)
class ChildInfo:
    """A process the daemon started."""

    pid: int
    what: str


@dataclass(frozen=True, slots=True)
class StatusResult:
    """How the daemon is."""

    pid: int
    version: str
    uptime_ms: int
    clients: tuple[ClientInfo, ...]
    sessions: SessionCounts
    queues: QueueCounts
    rss_bytes: int
    watch: WatchInfo
    children: tuple[ChildInfo, ...]
    last_errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaParams:
    """In which form the protocol is wanted: JSON Schema, TypeScript, or the reference for people."""

    format: Literal["jsonschema", "ts", "markdown"] = "jsonschema"


@dataclass(frozen=True, slots=True)
class SchemaResult:
    """The protocol; *hash* is that of its JSON Schema, whatever the form: the handshake's ``schemaHash``."""

    text: str
    hash: str


@dataclass(frozen=True, slots=True)
class LogTailParams:
    """Which lines: those from number *from_line* on, the newest for none; of *level* and above."""

    from_line: int | None = None
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the daemon's log; *line* counts from 1. It holds no prompt, file content or key."""

    line: int
    at: int
    level: str
    logger: str
    text: str


@dataclass(frozen=True, slots=True)
class LogTailResult:
    """The lines, oldest first; *next* is the *from_line* that goes on from here."""

    lines: tuple[LogLine, ...]
    next: int


@dataclass(frozen=True, slots=True)
class TraceSetParams:
    """What is traced of every client: nothing, which messages pass, or also their redacted content.

    *to_file* is an absolute path; without one a file of its own is begun below the state directory.
    """

    level: Literal["off", "messages", "verbose"]
    to_file: str | None = None


@dataclass(frozen=True, slots=True)
class TraceSetResult:
    """Where the trace goes; nothing when it is off."""

    path: str | None = None


@dataclass(frozen=True, slots=True)
class AttachParams:
    """Follow a loaded session: who controls it is asked for permissions, who observes it is not.

    *from_seq* is the last event the client has; without it, events are sent from now on.
    """

    sid: str
    mode: Literal["observe", "control"] = "control"
    from_seq: int | None = None


@dataclass(frozen=True, slots=True)
class EventRange:
    """The events from one number to another, both included."""

    first: int = field(metadata={"wire": "from"})
    last: int = field(metadata={"wire": "to"})


@dataclass(frozen=True, slots=True)
class AttachResult:
    """The session as it stands; *gap* are the events asked for that are not kept any more.

    *controllers* are the names of the clients that may answer its questions, this one included.
    """

    snapshot: SessionSnapshot
    seq: int
    controllers: tuple[str, ...]
    gap: EventRange | None = None

"""Messages about the daemon: its status, log, trace and schema, and the clients that follow a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sidecar._internal.values import Value
from sidecar.conductor.contract import SessionSnapshot


class ClientInfo(Value):
    """A connected client; *face* is its protocol."""

    id: str
    name: str
    face: str


class SessionCounts(Value):
    """The number of sessions in memory, and of those at work."""

    loaded: int
    running: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The number of unanswered requests, and the number of bytes waiting to be sent."""

    requests: int = field(metadata={"wire": "in"})
    out_bytes: int


class WatchInfo(Value):
    """The state of file watching: *backend* is ``client``, ``watchfiles`` or ``none``."""

    backend: str
    roots: int
    dropped: int


class ChildInfo(Value):
    """A process that the daemon started."""

    pid: int
    what: str


class StatusResult(Value, kw_only=True):
    """The state of the daemon; *queues* is measured at this moment, *rss_bytes* at most a second earlier."""

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


class SchemaParams(Value):
    """The form of the description: JSON Schema, TypeScript, or this page in Markdown.

    With the *face* ``acp`` the names of the methods in the schema have the underscore of that face.
    """

    format: Literal["jsonschema", "ts", "markdown"] = "jsonschema"
    face: Literal["lsp", "acp"] = "lsp"


class SchemaResult(Value):
    """The description; *hash* is the ``schemaHash`` of the handshake, the same for every form."""

    text: str
    hash: str


class LogTailParams(Value):
    """The lines to read: from number *from_line* on, by default the newest, of *level* and above.

    With *session* only lines that name this session are read.
    """

    from_line: int | None = None
    level: Literal["info", "warning", "error"] = "info"
    session: str | None = None


class LogLine(Value, kw_only=True):
    """One line of the daemon's log, without prompts, file contents or keys; *line* counts from 1."""

    line: int
    at: int
    level: str
    logger: str
    text: str


class LogTailResult(Value):
    """The lines, oldest first; *next* is the *from_line* of the next request."""

    lines: tuple[LogLine, ...]
    next: int


class TraceSetParams(Value):
    """The level of the trace for all clients: nothing, the passing messages, or also redacted content.

    *to_file* is the absolute path of a new file, or of one that this daemon has traced to. By default a new
    file is made in the state directory.
    """

    level: Literal["off", "messages", "verbose"]
    to_file: str | None = None


class TraceSetResult(Value):
    """The path of the trace; absent when tracing is off."""

    path: str | None = None


class AttachParams(Value):
    """The loaded session to follow, to ``observe`` it or to ``control`` it.

    Every client may read. One that controls the session is asked for permissions, and may act on it: send
    prompts, stop turns, compact, change options. A client that starts, loads or forks a session controls it.
    *from_seq* is the last event that the client has; without it, events are sent from now on.
    """

    sid: str
    mode: Literal["observe", "control"] = "control"
    from_seq: int | None = None


@dataclass(frozen=True, slots=True)
class EventRange:
    """A range of event numbers, both ends included."""

    first: int = field(metadata={"wire": "from"})
    last: int = field(metadata={"wire": "to"})


class AttachResult(Value):
    """The state of the session; *gap* is the range of requested events that cannot be sent.

    They are no longer kept; or the client named a number that the log has not reached, so that its events
    are of another log and *snapshot* replaces them. *controllers* are the names of the clients that may
    answer its questions, this one included.
    """

    snapshot: SessionSnapshot
    seq: int
    controllers: tuple[str, ...]
    gap: EventRange | None = None

"""Records of a session's file, beside its nodes: frozen values to JSON objects and back.

A record is one JSON object with a ``type``. A file may be damaged or written by another version, so a record
is validated here, when it is read, and nowhere after. Nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import field

from sidecar._internal.values import Value, force_setattr
from sidecar.conductor.contract import (
    SessionKind,
    SessionSummary,
    TaskState,
    TurnEnd,
    WaitingFor,
    WorkState,
)
from sidecar.conductor.errors import FolderUnknownError
from sidecar.conversation import FileRead
from sidecar.workspace.paths import path_to_uri

T = TypeVar("T")

_TITLE_CHARS: Final = 1_000

_WAITS_AFTER: Final[Mapping[str, tuple[WaitingFor, str]]] = {
    "budget": ("budget", "The budget is used up: raise it, or leave it at that"),
}
"""The decision that a turn with a stop reason leaves to the user, and a line about it."""

SKIPPED_SEQS: Final = 10_000_000
"""More events than a process emits between two stores of a session: text alone takes 90 hours for them."""


def to_record(kind: str, value: Any) -> dict[str, Any]:
    """Return *value*, a dataclass, as a record of type *kind*; the store makes its values JSON values."""
    record: dict[str, Any] = {"type": kind}
    for spec in fields(value):
        record[spec.name] = getattr(value, spec.name)
    return record


def from_record(cls: type[T], record: Mapping[str, Any]) -> T | None:
    """Return the value of *record*, None when a field is missing or has the wrong type.

    Unknown fields are ignored.

    >>> from sidecar.conductor.contract import TokenCounts
    >>> from_record(TokenCounts, {"input": 3, "output": "four"}) is None
    True
    """
    try:
        return msgspec.convert(record, cls)
    except ValueError:  # a wrong type, or a lone surrogate where a literal is expected
        return None


class _StoredRead(msgspec.Struct, frozen=True, rename="camel"):
    """One file in a ``reads`` record of an earlier version, as the model had read it."""

    path: str
    uri: str
    hash: str
    source: Literal["buffer", "disk"]
    call_id: str
    version: int | None = None
    ranges: tuple[tuple[int, int | None], ...] = ()


def reads_by_call(records: Iterable[Mapping[str, Any]]) -> dict[str, list[FileRead]]:
    """Return the files in the ``reads`` records of earlier versions, by the tool call that read them.

    Lines about a forgotten path are ignored, because the files seen follow the conversation.
    """
    found: dict[str, list[FileRead]] = {}
    for record in records:
        files = record.get("files") if record.get("type") == "reads" else None
        for raw in files if isinstance(files, list) else ():
            stored = from_record(_StoredRead, raw) if isinstance(raw, Mapping) else None
            if stored is not None:
                read = FileRead(**msgspec.structs.asdict(stored))
                found.setdefault(stored.call_id, []).append(read)
    return found


class FileRename(Value, kw_only=True):
    """The ``rename`` record: the user gave a file, or a folder with all below it, another path.

    Reads and changes up to *at*, in epoch milliseconds, count under the new path.
    """

    at: int
    path: str
    to_path: str

    def path_now(self, path: str) -> str:
        """Return the path that *path* has after it.

        >>> rename = FileRename(at=0, path="/p/src", to_path="/p/lib")
        >>> [Path(rename.path_now(path)).as_posix() for path in ("/p/src/a.py", "/p/src", "/p/srcs")]
        ['/p/lib/a.py', '/p/lib', '/p/srcs']
        """
        given = Path(path)
        is_moved = given.is_relative_to(self.path)
        return str(self.to_path / given.relative_to(self.path)) if is_moved else path

    def path_then(self, path: str) -> str:
        """Return the path that *path* had before it."""
        return FileRename(at=self.at, path=self.to_path, to_path=self.path).path_now(path)

    def read_now(self, read: FileRead) -> FileRead:
        """Return *read* under its new path."""
        path = self.path_now(read.path)
        return (
            read if path == read.path else replace(read, path=path, uri=path_to_uri(Path(path)), version=None)
        )


def find_renames(records: Iterable[Mapping[str, Any]]) -> list[FileRename]:
    """Return the renames among the *records* of a session, oldest first."""
    found = (from_record(FileRename, each) for each in records if each.get("type") == "rename")
    return [each for each in found if each is not None]


class SessionInfo(Value, kw_only=True):
    """The ``meta`` record of a session: its name, its folders and its choices. Times are epoch milliseconds.

    Attributes:
        policy: overrides of the engine's thresholds, by their wire names.
        seq: the newest number of the event log when this was stored.
        seq_is_last: whether no event came after *seq*: the session was closed with it.
        messages: the number of turns when this was stored.
        tokens: the size of the conversation when this was stored.
        session_total: the tokens of all model calls, as a ``TokenCounts``.
        cost: the price of all model calls in US dollars, None where it is not known.
        plan: the model's todo list.
        pins: the passages that the model always sees, as ``Pin`` values.
        mcp_servers: the tool servers that clients named, without their secrets.
        left_branch: the digest of a branch that was left, to enter with the next prompt; empty for none.
        left_head: the head of that branch, None for none.
        fork_digest: the digest of the later part of the session that was forked; empty for none.
        rules: the changes of rules by hand, each a ``RuleChange``.
        rule_notes: the notes about them below prompts, each a ``RuleNote``.
        brief: the text that its client has appended to the system prompt; empty for none.
        budget: the chosen budgets as text; empty for the settings of the user.
        imported_at: the time at which it was imported from another agent, 0 for never.
        kind: None for a session that a user has begun or forked.
        tool_call_id: the call of the session *parent* that a sub-agent works for.
        task: the state of that work when this was stored; ``running`` after its process is gone means that it
            was interrupted.
        reads_only: whether it has no tools that may change anything.
        end: the end of the newest turn, None where there is none, or something else came after it.
    """

    sid: str
    cwd: str
    model: str
    engine: str
    created_at: int
    updated_at: int
    roots: tuple[str, ...] = ()
    title: str = ""
    policy: Mapping[str, float] = field(default_factory=dict)
    knowledge: tuple[str, ...] = ()
    thinking: str = "default"
    archived: bool = False
    ephemeral: bool = False
    parent: str | None = None
    seq: int = 0
    seq_is_last: bool = False
    messages: int = 0
    tokens: int = 0
    last_compaction_at: int | None = None
    session_total: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    plan: tuple[Mapping[str, Any], ...] = ()
    pins: tuple[Mapping[str, Any], ...] = ()
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    left_branch: str = ""
    left_head: str | None = None
    fork_digest: str = ""
    rules: tuple[Mapping[str, Any], ...] = ()
    rule_notes: tuple[Mapping[str, Any], ...] = ()
    brief: str = ""
    budget: str = ""
    imported_at: int = 0
    kind: SessionKind | None = None
    tool_call_id: str | None = None
    task: TaskState | None = None
    reads_only: bool = False
    end: TurnEnd | None = None

    def check_folder(self) -> None:
        """Raise FolderUnknownError unless the session's folder is known."""
        if not self.cwd:
            raise FolderUnknownError(self.sid)

    def as_loaded(self) -> SessionInfo:
        """Return the record for a process that loads the session, with a *seq* that no event has had so far.

        A process that was killed may have emitted events after it stored *seq*, and clients may have them. A
        task that it was at was interrupted.
        """
        seq = self.seq + (0 if self.seq_is_last else SKIPPED_SEQS)
        task = "interrupted" if self.task == "running" else self.task
        return replace(self, seq=seq, seq_is_last=False, task=task)

    def __post_init__(self) -> None:
        """Cut a title that is longer than lists and events should carry."""
        force_setattr(self, "title", self.title[:_TITLE_CHARS])

    def summary(
        self, phase: str = "idle", n_messages: int | None = None, work: WorkState | None = None
    ) -> SessionSummary:
        """Return the session as a list shows it, with *n_messages* turns; by default as one at rest."""
        work = work or work_after(self.end, self.updated_at)
        return SessionSummary(
            sid=self.sid,
            cwd=self.cwd,
            title=self.title,
            updated_at=self.updated_at,
            phase=phase,
            messages=self.messages if n_messages is None else n_messages,
            tokens=self.tokens,
            last_compaction_at=self.last_compaction_at,
            archived=self.archived,
            state=work.state,
            since=work.since,
            waiting_for=work.waiting_for,
            text=work.text or None,
            parent=self.parent,
            kind=self.kind,
            tool_call_id=self.tool_call_id,
            task=self.task,
        )

    def as_fork(self, sid: str, now_ms: int, n_messages: int) -> SessionInfo:
        """Return the record of a fork *sid* with *n_messages* turns, which has cost nothing yet."""
        return replace(
            self,
            sid=sid,
            created_at=now_ms,
            updated_at=now_ms,
            parent=self.sid,
            archived=False,
            left_branch="",
            left_head=None,
            seq=0,
            seq_is_last=False,
            messages=n_messages,
            last_compaction_at=None,
            session_total={},
            cost=None,
            kind=None,
            tool_call_id=None,
            task=None,
            reads_only=False,
            end=None,
        )


def work_after(end: TurnEnd | None, since: int) -> WorkState:
    """Return the work of a session in which nothing has gone on *since* the *end* of its newest turn."""
    if end is not None and end.error_kind:
        return WorkState(state="failed", since=since, text=end.message)
    if end is not None and (waits := _WAITS_AFTER.get(end.stop_reason or "")):
        waiting_for, text = waits
        return WorkState(state="waiting", since=since, waiting_for=waiting_for, text=text)
    return WorkState(state="idle", since=since)


def newest_record(cls: type[T], kind: str, records: Sequence[Mapping[str, Any]]) -> T | None:
    """Return the value of the newest record of type *kind*, None where there is none or it cannot be read."""
    of_kind = (record for record in reversed(records) if record.get("type") == kind)
    return from_record(cls, next(of_kind, {}))


def newest_info(records: Sequence[Mapping[str, Any]]) -> SessionInfo | None:
    """Return the newest ``meta`` record of *records* that can be read, None when there is none."""
    metas = (record for record in reversed(records) if record.get("type") == "meta")
    return next(filter(None, (from_record(SessionInfo, record) for record in metas)), None)

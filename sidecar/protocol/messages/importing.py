"""Messages of ``sidecar/import/*`` and ``sidecar/session/import``: sessions of other agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportListParams:
    """The sessions to list: all or only of one *format*, and at most *limit*.

    Formats are ``claude-code``, ``codex``, ``pi``, ``opencode``, ``copilot-cli``, ``gemini-cli``, ``cline``
    and ``aider``. The history of aider is found in *cwd* and in the folders of the stored sessions.
    """

    format: str | None = None
    cwd: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportableSession:
    """A session of another agent on this machine.

    *id* is the agent's own; *cwd* and *title* are empty where they are not known; *updated_at* is the time of
    the last change of its file.
    """

    format: str
    id: str
    path: str
    cwd: str
    title: str
    updated_at: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ImportListResult:
    """The sessions, newest first."""

    sessions: tuple[ImportableSession, ...]


@dataclass(frozen=True, slots=True)
class SessionImportParams:
    """The session to import: the absolute *path* of its file, or the *id* of a listed one, or its beginning.

    A database needs both. *format* is recognised where it is absent; besides the listed ones ``openhands``
    reads runs of OpenHands and ``chat`` reads messages with roles. *cwd* is the folder to go on in, by
    default the recorded one, which must exist. *model* and *engine* are chosen as for a new session. On the
    LSP face *work_done_token* gets the progress.
    """

    path: str | None = None
    id: str | None = None
    _: KW_ONLY
    format: str | None = None
    cwd: str | None = None
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    work_done_token: str | int | None = None


@dataclass(frozen=True, slots=True)
class ImportNote:
    """A repair or an omission: its reason, how often it happened, and a sentence about it."""

    reason: str
    count: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionImportResult:
    """The new session, which is stored and not loaded, and a report.

    *entries* has the number of entries of each kind, on all branches. *reads* counts the file contents that
    the model has seen whole, *compactions* the compactions of the other agent. *notes* is empty where nothing
    was repaired or left out.
    """

    sid: str
    format: str
    title: str
    cwd: str
    tokens: int
    entries: Mapping[str, int]
    reads: int
    compactions: int
    notes: tuple[ImportNote, ...]

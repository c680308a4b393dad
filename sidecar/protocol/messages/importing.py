"""Messages of ``sidecar/session/import``: sessions of other agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from sidecar._internal.values import Value


class ImportableSession(Value, kw_only=True):
    """A session of another agent on this machine.

    *id* is the agent's own; *cwd* and *title* are empty where they are not known; *updated_at* is the time of
    the last change of its file.
    """

    source: str
    id: str
    path: str
    cwd: str
    title: str
    updated_at: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SessionImportParams:
    """The session to import: the absolute *path* of its file, or the *id* of a listed one, or its beginning.

    A database needs both. *source* is the agent, recognised where it is absent: ``claude-code``, ``codex``,
    ``pi``, ``opencode``, ``copilot-cli``, ``gemini-cli``, ``cline`` or ``aider``; ``openhands`` reads runs of
    OpenHands and ``chat`` reads messages with roles. *cwd* is the folder to go on in, by default the recorded
    one, which must exist. *model* and *engine* are chosen as for a new session. On the LSP face
    *work_done_token* gets the progress.

    With *list_only* nothing is imported: the sessions of this machine are listed, all or only of one
    *source*, and at most *limit*. The history of aider is found in *cwd* and in the folders of the stored
    sessions.
    """

    source: str | None = None
    path: str | None = None
    id: str | None = None
    _: KW_ONLY
    list_only: bool = False
    limit: int = 50
    cwd: str | None = None
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    work_done_token: str | int | None = None


class ImportNote(Value):
    """A repair or an omission: its reason, how often it happened, and a sentence about it."""

    reason: str
    count: int
    message: str


class SessionImportReport(Value, kw_only=True):
    """The report on an imported session.

    *entries* has the number of entries of each kind, on all branches. *reads* counts the file contents that
    the model has seen whole, *compactions* the compactions of the other agent. *notes* is empty where nothing
    was repaired or left out.
    """

    source: str
    title: str
    cwd: str
    tokens: int
    entries: Mapping[str, int]
    reads: int
    compactions: int
    notes: tuple[ImportNote, ...]


@dataclass(frozen=True, slots=True)
class SessionImportResult:
    """The id of the new session, which is stored and not loaded, and a report; or the listed *sessions*.

    They are listed newest first.
    """

    sid: str | None = None
    report: SessionImportReport | None = None
    sessions: tuple[ImportableSession, ...] | None = None

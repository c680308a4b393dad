"""Messages of ``sidecar/context/*``, ``sidecar/rehydrate/*`` and ``sidecar/fs/*``."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.conductor.contract import ContextFile, RestoredFile

__all__ = [
    "ContextDropParams",
    "ContextDropResult",
    "ContextFilesResult",
    "ContextUsageParams",
    "FsUnwatchParams",
    "FsWatchParams",
    "FsWatchResult",
    "RehydrateParams",
    "RehydratePreviewResult",
    "RehydrateRunResult",
]


@dataclass(frozen=True, slots=True)
class ContextUsageParams:
    """How full the window is; *detail* adds where the tokens come from."""

    sid: str
    detail: bool = False


@dataclass(frozen=True, slots=True)
class ContextFilesResult:
    """The files the model has read."""

    files: tuple[ContextFile, ...]


@dataclass(frozen=True, slots=True)
class ContextDropParams:
    """Nodes of the conversation to go on without; a tool call and its results go together.

    *expect_head* is the head the client saw; null takes any.
    """

    sid: str
    node_ids: tuple[str, ...]
    expect_head: str | None


@dataclass(frozen=True, slots=True)
class ContextDropResult:
    """The head now, and what went; ``sidecar/session/rewind`` to the former head brings it back."""

    head: str | None
    dropped: tuple[str, ...]
    tokens_freed: int
    seq: int


@dataclass(frozen=True, slots=True)
class RehydrateParams:
    """Files the model has read: *uris* of them, or all it does not see as they are now; *budget* in tokens.

    Nothing is put beyond the engine's limit, whatever the budget.
    """

    sid: str
    uris: tuple[str, ...] | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class RehydratePreviewResult:
    """What would come back; *missing* says why the others would not."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class RehydrateRunResult:
    """What came back, behind the conversation as it was; a rewind takes it away again."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int
    head: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class FsWatchParams:
    """Which files of the session's folders to tell of: those that match one of *globs*."""

    sid: str
    globs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FsWatchResult:
    """``sidecar/fs/changed`` tells of them until the session is closed; *backend* as in the status."""

    watch_id: str
    backend: str


@dataclass(frozen=True, slots=True)
class FsUnwatchParams:
    """A watch of this client's."""

    watch_id: str

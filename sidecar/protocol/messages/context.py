"""Messages of ``sidecar/context/*``, ``sidecar/rehydrate/*`` and ``sidecar/fs/*``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from sidecar.conductor.contract import ContextFile, RestoredFile
from sidecar.conductor.loss_values import Pin


@dataclass(frozen=True, slots=True)
class ContextUsageParams:
    """The session to measure; *detail* adds the origin of the tokens."""

    sid: str
    detail: bool = False


@dataclass(frozen=True, slots=True)
class ContextFilesResult:
    """The files that the model has read."""

    files: tuple[ContextFile, ...]


@dataclass(frozen=True, slots=True)
class ContextDropParams:
    """The nodes to leave out of the conversation; a tool call and its results go together.

    *expect_head* is the head that the client saw; null accepts any.
    """

    sid: str
    node_ids: tuple[str, ...]
    expect_head: str | None


@dataclass(frozen=True, slots=True)
class ContextDropResult:
    """The new head and the dropped nodes; ``sidecar/session/rewind`` to the former head restores them."""

    head: str | None
    dropped: tuple[str, ...]
    tokens_freed: int
    seq: int


@dataclass(frozen=True, slots=True)
class PinListResult:
    """The pins, oldest first, and the tokens that they take of the most that they may take."""

    pins: tuple[Pin, ...]
    tokens: int
    limit_tokens: int


@dataclass(frozen=True, slots=True)
class PinAddParams:
    """The passage to pin: a fact of a loss report, a node on any branch, or a text; just one of them."""

    sid: str
    _: KW_ONLY
    fact_id: str | None = None
    node_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class PinRemoveParams:
    """The pin to take away."""

    sid: str
    pin_id: str


@dataclass(frozen=True, slots=True)
class PinAddResult:
    """The pin; the model sees it from the next request on."""

    pin: Pin


@dataclass(frozen=True, slots=True)
class RehydrateParams:
    """The files to restore: *uris* that the model has read, or all that have changed since.

    *budget* is the most tokens to add. The limit of the engine holds in any case.
    """

    sid: str
    uris: tuple[str, ...] | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class RehydratePreviewResult:
    """The files that would be restored; *missing* has a reason for each of the others."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrateRunResult:
    """The restored files, added behind the conversation; a rewind removes them again."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int
    head: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class FsWatchParams:
    """The files of the session's folders to watch, as globs."""

    sid: str
    globs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FsWatchResult:
    """The watch, which sends ``sidecar/fs/changed`` until the session is closed.

    *backend* is ``client``, ``watchfiles`` or ``none``, as in ``sidecar/status``.
    """

    watch_id: str
    backend: str


@dataclass(frozen=True, slots=True)
class FsUnwatchParams:
    """The watch to end; it must belong to this client."""

    watch_id: str

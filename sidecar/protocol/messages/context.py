"""Messages of ``sidecar/context/*``, ``sidecar/rehydrate/*`` and ``sidecar/fs/*``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from sidecar._internal.values import Value
from sidecar.conductor.contract import ContextFile, RestoredFile
from sidecar.conductor.loss_values import Pin


class ContextUsageParams(Value):
    """The session to measure; *detail* adds the origin of the tokens."""

    sid: str
    detail: bool = False


class ContextFilesResult(Value):
    """The files that the model has read."""

    files: tuple[ContextFile, ...]


class ContextDropParams(Value):
    """The nodes to leave out of the conversation; a tool call and its results go together.

    *expect_head* is the head that the client saw; null accepts any.
    """

    sid: str
    node_ids: tuple[str, ...]
    expect_head: str | None


class ContextDropResult(Value):
    """The new head and the dropped nodes; ``sidecar/session/rewind`` to the former head restores them."""

    head: str | None
    dropped: tuple[str, ...]
    tokens_freed: int
    seq: int


@dataclass(frozen=True, slots=True)
class ContextExpandParams:
    """The turns behind a summary that the model is to see again, as they were said.

    *compaction_id* names the summary, the one that stands by default. Without nodes all turns come back;
    *node_ids* or a range *from_node* to *to_node* choose some, tool calls with their results.
    """

    sid: str
    compaction_id: str | None = None
    _: KW_ONLY
    node_ids: tuple[str, ...] = ()
    from_node: str | None = None
    to_node: str | None = None
    expect_head: str | None = None


class ContextExpandResult(Value):
    """The new head, and the number of turns and of tokens that are back.

    ``sidecar/compact/undo`` with *compaction_id* takes the expansion back.
    """

    compaction_id: str
    head: str | None
    expanded: int
    tokens: int
    seq: int


@dataclass(frozen=True, slots=True)
class ContextPinParams:
    """The passage to pin: a fact of a loss report, a node on any branch, or a text; or the pin to take away.

    At most one of them; without any the pins are listed.
    """

    sid: str
    _: KW_ONLY
    fact_id: str | None = None
    node_id: str | None = None
    text: str | None = None
    unpin: str | None = None


class ContextPinResult(Value):
    """All pins, oldest first, the tokens that they take of the most that they may take, and the added *pin*.

    The model sees a pin from the next request on.
    """

    pins: tuple[Pin, ...]
    tokens: int
    limit_tokens: int
    seq: int
    pin: Pin | None = None


class RehydrateParams(Value):
    """The files to restore: *uris* that the model has read, or all that have changed since.

    *budget* is the most tokens to add. The limit of the engine holds in any case.
    """

    sid: str
    uris: tuple[str, ...] | None = None
    budget: int | None = None


class RehydratePreviewResult(Value):
    """The files that would be restored; *missing* has a reason for each of the others."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int


class RehydrateRunResult(Value, kw_only=True):
    """The restored files, added behind the conversation; a rewind removes them again."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int
    head: str | None
    seq: int


class FsWatchParams(Value):
    """The files of the session's folders to watch, as globs."""

    sid: str
    globs: tuple[str, ...]


class FsWatchResult(Value):
    """The watch, which sends ``sidecar/fs/changed`` until the session is closed.

    *backend* is ``client``, ``watchfiles`` or ``none``, as in ``sidecar/status``.
    """

    watch_id: str
    backend: str


class FsUnwatchParams(Value):
    """The watch to end; it must belong to this client."""

    watch_id: str

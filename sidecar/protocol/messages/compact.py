"""Messages of ``sidecar/compact/*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sidecar.conductor.contract import Compaction, Plan
from sidecar.protocol.messages.session import NodeView

__all__ = [
    "CancelResult",
    "CompactCancelParams",
    "CompactCompareParams",
    "CompactCompareResult",
    "CompactListResult",
    "CompactPreviewParams",
    "CompactReadParams",
    "CompactReadResult",
    "CompactStartParams",
    "CompactStartResult",
    "CompactUndoParams",
    "CompactUndoResult",
]


@dataclass(frozen=True, slots=True)
class CompactPreviewParams:
    """What a compaction would do."""

    sid: str
    engine: str | None = None
    mode: Literal["auto", "force"] = "auto"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class CompactCompareParams:
    """What compactions by several engines would do; without *engines* by all that ever compact."""

    sid: str
    engines: tuple[str, ...] | None = None
    mode: Literal["auto", "force"] = "force"


@dataclass(frozen=True, slots=True)
class CompactCompareResult:
    """One plan an engine, in the order asked for."""

    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class CompactStartParams:
    """Compact, as previewed in *plan_id* or as said here."""

    sid: str
    plan_id: str | None = None
    engine: str | None = None
    mode: Literal["auto", "force"] = "force"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None
    expect_head: str | None = None
    when_busy: Literal["afterTurn", "reject"] = "afterTurn"
    work_done_token: str | int | None = None


@dataclass(frozen=True, slots=True)
class CompactStartResult:
    """What became of the request; the outcome is a ``compaction`` event."""

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    seq: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CompactCancelParams:
    """Stop a compaction; the conversation stays as it was."""

    sid: str
    compaction_id: str


@dataclass(frozen=True, slots=True)
class CancelResult:
    """Whether there was something to stop."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class CompactUndoParams:
    """Take a compaction back, the newest when none is named; *force* also when it will not fit the window."""

    sid: str
    compaction_id: str | None = None
    expect_head: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class CompactUndoResult:
    """The new head, and the tokens that are back."""

    head: str | None
    restored_tokens: int
    seq: int


@dataclass(frozen=True, slots=True)
class CompactListResult:
    """Every compaction of the session, oldest first."""

    compactions: tuple[Compaction, ...]


@dataclass(frozen=True, slots=True)
class CompactReadParams:
    """One part of a compaction."""

    sid: str
    compaction_id: str
    part: Literal["summary", "dropped"] = "summary"


@dataclass(frozen=True, slots=True)
class CompactReadResult:
    """The part as text; for ``dropped`` also its nodes."""

    content: str
    nodes: tuple[NodeView, ...] | None = None

"""Messages of ``sidecar/compact/*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sidecar._internal.values import Value
from sidecar.conductor.contract import Compaction, Plan
from sidecar.conductor.loss_values import FactName, FactState, Loss, ReportedFact
from sidecar.conductor.workbench.kept_changes import FileRestore
from sidecar.protocol.messages.session import NodeView


@dataclass(frozen=True, slots=True)
class CompactPreviewParams:
    """The compaction to plan. *mode* ``auto`` plans one only above the threshold, ``force`` always.

    *engine* and *policy* replace the session's own for this plan; *instructions* go to the summarizer.
    """

    sid: str
    _: KW_ONLY
    engine: str | None = None
    mode: Literal["auto", "force"] = "auto"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None


class CompactCompareParams(Value):
    """The engines to compare; without *engines*, every engine that compacts.

    With *detail* each plan has its prompt and the ids of the nodes that it drops, which grow with the
    conversation; ``sidecar/compact/preview`` always has them.
    """

    sid: str
    engines: tuple[str, ...] | None = None
    mode: Literal["auto", "force"] = "force"
    detail: bool = False


class CompactCompareResult(Value):
    """One plan for each engine, in the order of the request."""

    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class CompactStartParams:
    """The compaction to run: the previewed plan *plan_id*, or the one that the other members describe.

    *expect_head* refuses the compaction when the conversation has moved on. *when_busy* says whether to wait
    for the running turn or to refuse. On the LSP face *work_done_token* gets the progress.
    """

    sid: str
    _: KW_ONLY
    plan_id: str | None = None
    engine: str | None = None
    mode: Literal["auto", "force"] = "force"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None
    expect_head: str | None = None
    when_busy: Literal["afterTurn", "reject"] = "afterTurn"
    work_done_token: str | int | None = None


class CompactStartResult(Value):
    """The receipt of a compaction; its outcome is a ``compaction`` event.

    *disposition* is ``noop`` when there is nothing to compact, and *reason* says why.
    """

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    seq: int
    reason: str | None = None


class CompactCancelParams(Value):
    """The running or queued compaction to stop; the conversation stays as it was."""

    sid: str
    compaction_id: str


class CancelResult(Value):
    """*accepted* is false for a compaction that has ended, or is being stored."""

    accepted: bool
    seq: int


class CompactUndoParams(Value):
    """The compaction to take back, the newest one by default.

    *force* takes it back even when the restored conversation does not fit the window. *files* says whether
    the files that turns since the compaction have changed stay or are restored, each unless others have
    changed it since.
    """

    sid: str
    compaction_id: str | None = None
    expect_head: str | None = None
    force: bool = False
    files: Literal["keep", "restore"] = "keep"


class CompactUndoResult(Value):
    """The new head, and the number of tokens that are back in the conversation.

    *edited_files* are the URIs of the files that turns since the compaction edited. *restored_files* are
    empty unless the request asked for them; a file with another outcome stays as it is.
    """

    head: str | None
    restored_tokens: int
    seq: int
    edited_files: tuple[str, ...] = ()
    restored_files: tuple[FileRestore, ...] = ()


class CompactListResult(Value):
    """Every compaction of the session, oldest first, the running one last, and the ids of waiting ones."""

    compactions: tuple[Compaction, ...]
    queued_compactions: tuple[str, ...] = ()


class CompactReadParams(Value):
    """The part of a compaction to read: the summary, the turns that it replaced, or the facts in them.

    The prompt is made again from the stored turns, as the engine is set now. It is empty where no model wrote
    the summary.

    Of the facts, *kinds* and *states* choose some. Facts and turns come in pages: *cursor* asks for the next
    one of at most *limit*, and of at most 1000 in any case.
    """

    sid: str
    compaction_id: str
    part: Literal["summary", "dropped", "prompt", "loss"] = "summary"
    kinds: tuple[FactName, ...] | None = None
    states: tuple[FactState, ...] | None = None
    cursor: str | None = None
    limit: int = 200


class CompactReadResult(Value):
    """The part as text; ``dropped`` has a page of its nodes, ``loss`` one of facts and the counts of all.

    The text of ``dropped`` is the number of all its turns.
    A fact is compared with the view after the compaction, and with the system prompt as it is now.
    *next_cursor* is absent on the last page.
    """

    content: str
    nodes: tuple[NodeView, ...] | None = None
    facts: tuple[ReportedFact, ...] | None = None
    loss: Loss | None = None
    next_cursor: str | None = None

"""Messages of ``sidecar/compact/*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sidecar.conductor.checkpoint_shapes import FileRestore
from sidecar.conductor.contract import Compaction, Plan
from sidecar.conductor.loss_values import FactName, FactState, Loss, ReportedFact
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


@dataclass(frozen=True, slots=True)
class CompactCompareParams:
    """The engines to compare; without *engines*, every engine that compacts.

    With *detail* each plan has its prompt and the ids of the nodes that it drops, which grow with the
    conversation; ``sidecar/compact/preview`` always has them.
    """

    sid: str
    engines: tuple[str, ...] | None = None
    mode: Literal["auto", "force"] = "force"
    detail: bool = False


@dataclass(frozen=True, slots=True)
class CompactCompareResult:
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


@dataclass(frozen=True, slots=True)
class CompactStartResult:
    """The receipt of a compaction; its outcome is a ``compaction`` event.

    *disposition* is ``noop`` when there is nothing to compact, and *reason* says why.
    """

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    seq: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CompactCancelParams:
    """The running or queued compaction to stop; the conversation stays as it was."""

    sid: str
    compaction_id: str


@dataclass(frozen=True, slots=True)
class CancelResult:
    """*accepted* is true when there was something to stop."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class CompactUndoParams:
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


@dataclass(frozen=True, slots=True)
class CompactUndoResult:
    """The new head, and the number of tokens that are back in the conversation.

    *edited_files* are the URIs of the files that turns since the compaction edited. *restored_files* are
    empty unless the request asked for them; a file with another outcome stays as it is.
    """

    head: str | None
    restored_tokens: int
    seq: int
    edited_files: tuple[str, ...] = ()
    restored_files: tuple[FileRestore, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactExpandParams:
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


@dataclass(frozen=True, slots=True)
class CompactExpandResult:
    """The new head, and the number of turns and of tokens that are back.

    ``sidecar/compact/undo`` with *compaction_id* takes the expansion back.
    """

    compaction_id: str
    head: str | None
    expanded: int
    tokens: int
    seq: int


@dataclass(frozen=True, slots=True)
class CompactListResult:
    """Every compaction of the session, oldest first."""

    compactions: tuple[Compaction, ...]


@dataclass(frozen=True, slots=True)
class CompactReadParams:
    """The part of a compaction to read: the summary, the turns that it replaced, or the facts in them.

    Of the facts, *kinds* and *states* choose some. Facts and turns come in pages: *cursor* asks for the next
    one of at most *limit*, and of at most 1000 in any case.
    """

    sid: str
    compaction_id: str
    part: Literal["summary", "dropped", "facts"] = "summary"
    kinds: tuple[FactName, ...] | None = None
    states: tuple[FactState, ...] | None = None
    cursor: str | None = None
    limit: int = 200


@dataclass(frozen=True, slots=True)
class CompactReadResult:
    """The part as text; ``dropped`` has a page of its nodes, ``facts`` one of facts and the counts of all.

    The text of ``dropped`` is the number of all its turns.
    A fact is compared with the view after the compaction, and with the system prompt as it is now.
    *next_cursor* is absent on the last page.
    """

    content: str
    nodes: tuple[NodeView, ...] | None = None
    facts: tuple[ReportedFact, ...] | None = None
    loss: Loss | None = None
    next_cursor: str | None = None

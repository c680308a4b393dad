"""Prepares the summary of a compaction before it is needed, while the user reads or types.

A compaction that waits for a model makes a turn wait. So once a turn has settled and the gate is three
quarters full, the head that a compaction would fold now is summarised in a task of its own. The compaction
itself goes on from that summary: a model reads only the part that is new since then. An engine that cannot go
on from a summary compacts ahead as a whole, and the part that is new stays as it is behind the result. The
clients are notified once, so that a user may still steer the compaction.

A prepared summary holds for one path: it names the first node that it does not cover, and any move of the
conversation other than growth discards it. At most one task works at a time, and :meth:`aclose` waits for
its end.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar._internal.errors import log_fault
from sidecar._internal.values import Value
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engine import (
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    PlannedCompaction,
    PreparedSummary,
    SummaryFailedError,
)
from sidecar.conductor.events import CompactionNear
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.planner import SUMMARY_DEADLINE_S, CompactionPlanner
from sidecar.conversation import History

NEAR_SHARE: Final = 0.75
"""How full the gate is when the summary is prepared, as a share of its limit."""


class PreparedCompaction(Value, kw_only=True):
    """A whole compaction up to the node *head*, for an engine that cannot go on from a summary.

    The entries since then stay as they are behind its view.
    """

    engine: str
    result: CompactionResult
    head: str | None


class SummaryPreparer:
    """Prepares the summaries of one session's own engine."""

    def __init__(self, record: SessionRecord, planner: CompactionPlanner, *, prepares: bool) -> None:
        """*prepares* is False where the settings ask for no summary ahead of its need."""
        self._history = record.history
        self._events = record.events
        self._planner = planner
        self._prepares = prepares
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancel = CancelToken()
        self._base: History | None = None
        self._made: PreparedSummary | PreparedCompaction | None = None
        self._was_near = False

    def on_settled(self) -> None:
        """Notify the clients once when the gate becomes three quarters full, and begin to prepare."""
        engines = self._planner.engines
        request = engines.automatic()
        engine = engines.get(request.engine)
        gate = self._planner.request.gate(request)
        is_near = gate.limit > 0 and gate.tokens >= NEAR_SHARE * gate.limit
        prepares = is_near and self._prepares and self._planner.summarizer.writes_note(engine)
        if is_near and not self._was_near and engine.compacts:
            self._events.emit(CompactionNear(gate.tokens, gate.limit, gate.window, prepares))
        if self._base is not None and self._history.current.since(self._base) is None:
            self.cancel()
        self._was_near = is_near
        if prepares and self._base is None:
            self._base, self._cancel = self._history.current, CancelToken()
            preparing = self.prepare(request, self._base, self._cancel)
            keep_until_done(asyncio.create_task(preparing), self._tasks)

    def cancel(self) -> None:
        """Stop preparing, and discard the summary. A limit that is near after that is announced anew."""
        self._base = self._made = None
        self._was_near = False
        self._cancel.cancel("no longer needed")
        for task in self._tasks:
            task.cancel()

    async def take(self, engine: str) -> PreparedSummary | PreparedCompaction | None:
        """Return the summary or compaction prepared for *engine*, once it is ready; None for none."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        return self._made if self._made is not None and self._made.engine == engine else None

    async def aclose(self) -> None:
        """Stop preparing, and return when that has ended."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def prepare(self, request: CompactionRequest, base: History, cancel: CancelToken) -> None:
        """Prepare the summary of *base*. Never raises for a failure: the compaction does without then.

        Args:
            request: the request of the gate, which names the engine.
            base: the conversation; a summary of it is kept unless it was discarded meanwhile.
            cancel: ends the work.
        """
        engine = self._planner.engines.get(request.engine)
        checked = self._planner.summarizer.check_answers(engine, base)
        if checked is None:
            return
        planned = await self._planner.make(engine, replace(request, force=True))
        try:
            async with asyncio.timeout(2 * SUMMARY_DEADLINE_S):
                deps = EngineDeps(checked, cancel, SUMMARY_DEADLINE_S)
                made = await prepare_with(planned, request, deps)
        except (CancelledByToken, TimeoutError, SummaryFailedError):
            return
        except Exception as error:
            log_fault("the preparation of a compaction", error)
            return
        if isinstance(made, PreparedSummary):
            made = replace(made, mended=tuple(checked.dropped), statements=tuple(checked.statements))
        elif isinstance(made, PreparedCompaction):
            made = replace(made, result=checked.report(made.result))
        if base is self._base:
            self._made = made


async def prepare_with(
    planned: PlannedCompaction, request: CompactionRequest, deps: EngineDeps
) -> PreparedSummary | PreparedCompaction | None:
    """Return the summary or compaction that an engine prepares; None for none.

    Args:
        planned: a compaction of the conversation as if it were requested now.
        request: the request of the gate.
        deps: the means of the engine.

    Raises:
        CancelledByToken: the token of *deps* fired.
        SummaryFailedError: no usable summary came.
    """
    engine, given = planned.engine, planned.given
    if engine.prepares:
        return await engine.prepare(given, request, deps)
    if isinstance(planned.found, NoOp):
        return None
    result = await engine.compact(given, planned.request, planned.plan, deps)
    if isinstance(result, NoOp) or result.summary_source != "model":
        return None
    return PreparedCompaction(engine=engine.name, result=result, head=given.history.head)


def bring_up_to_date(planned: PlannedCompaction, made: PreparedCompaction) -> CompactionResult | None:
    """Return the result of *made* for the conversation as it is now, without a model call.

    Args:
        planned: the compaction of the conversation, which has grown out of the one that it was made for.
        made: the compaction that was prepared.

    Returns:
        The result; None where the conversation would be over its limit all the same.
    """
    engine, given, gate = planned.engine, planned.given, planned.gate
    ids = given.history.node_ids
    if made.head not in ids:
        return None
    entries = (*made.result.entries, *given.history[ids.index(made.head) + 1 :])
    after = given.overhead_tokens + engine.weigh(entries)
    if after > gate.limit or after >= gate.tokens:
        return None
    return replace(made.result, entries=entries, pre_tokens=gate.tokens, post_tokens=after)

"""The loss reports of one session: counted when a compaction is made, listed when a client asks.

The comparison is that of the module ``loss`` beside this one. It runs in a thread, one at a time. A
compaction waits for its counts for a moment at most, so that no turn becomes longer by them, and is
published again with the counts that took longer. The list is made anew from the two branches whenever it is
asked for, also after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final, TypeVar

from sidecar._internal.allocator import bulk_work
from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar._internal.errors import log_fault
from sidecar.conductor.contract import Compaction
from sidecar.conductor.engine import CompactionResult, EngineInput
from sidecar.conductor.loss_values import FactState, Loss, ReportedFact
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.loss import (
    FactLedger,
    HeldFact,
    LossReport,
    TextLookup,
    as_reported,
    count_facts,
    report_facts,
    text_shown,
)
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import Entry, History

T = TypeVar("T")

COUNT_WAIT_S: Final = 0.25
MAX_COUNTED: Final = 100_000
"""How long a compaction waits for its counts, and of how many entries it waits for any."""


class LossReports:
    """Makes the loss reports of one session."""

    def __init__(self, record: SessionRecord, workbench: Workbench, head: RequestHead) -> None:
        """Make them; the model sees the text of *head* as well."""
        self._record = record
        self._history = record.history
        self._tools = workbench.tools
        self._head = head
        self._cancel = CancelToken()
        self._ledger = FactLedger(self._cancel)
        self._lock = Lock()
        self._last: tuple[tuple[str, str], LossReport] | None = None

    def close(self) -> None:
        """End a report that is being made: the session is closed, and its end must not wait for it."""
        self._cancel.cancel("the session is closed")
        self._ledger, self._last = FactLedger(self._cancel), None

    async def with_counts(self, given: EngineInput, result: CompactionResult) -> CompactionResult:
        """Return *result* with its facts counted, or as it is where that takes too long. Never fails."""
        if len(self._history.graph.entries) > MAX_COUNTED:
            return result
        counting = asyncio.ensure_future(self._compare(given.history, result.entries, count_facts))
        counting.add_done_callback(log_failure)
        done, _ = await asyncio.wait([counting], timeout=COUNT_WAIT_S)
        if not done or counting.exception() is not None:
            return result
        return replace(result, loss=with_mended(counting.result(), result.info))

    async def count(self, done: Compaction) -> Loss | None:
        """Return the counts of *done*, however long they take; None where they fail or are cancelled."""
        try:
            counts = await self._compare(*await self.around(done), count_facts)
        except CancelledByToken:
            return None
        except Exception as error:
            log_fault("the counts of a compaction", error)
            return None
        return with_mended(counts, done.info)

    async def read(self, done: Compaction) -> LossReport:
        """Return the report of *done*; it is empty where nothing was folded, or nothing is any more."""
        if done.status != "completed" or done.before_head is None:
            return LossReport()
        key = (done.compaction_id, self.text_beside())
        if self._last is None or self._last[0] != key:
            report = await self._compare(*await self.around(done), report_facts)
            self._last = (key, replace(report, loss=with_mended(report.loss, done.info)))
        return self._last[1]

    async def read_now(self) -> LossReport:
        """Return the facts that stand behind the summaries of the conversation."""
        history = self._history.current
        return await self._compare(history, history, report_facts)

    async def find(self, report: LossReport, fact_id: str) -> HeldFact | None:
        """Return a fact of *report*, None where it has no such one."""
        facts = (fact for fact, _ in report.facts if fact.fact_id == fact_id)
        return await asyncio.to_thread(next, facts, None)

    def show(self, facts: Iterable[tuple[HeldFact, FactState]]) -> tuple[ReportedFact, ...]:
        """Return *facts* as clients see them."""
        pinned = {pin.pin_id for pin in self._record.pins()}
        return tuple(as_reported(fact, state, pinned) for fact, state in facts)

    def text_beside(self) -> str:
        """Return the text that the model sees beside the conversation: the system prompt and all rules."""
        return "\n".join((self._head.system(), *self._head.user_rules.texts))

    async def around(self, done: Compaction) -> tuple[History, Sequence[Entry]]:
        """Return the conversation before *done*, and the entries that the model saw right after it."""
        before = await asyncio.to_thread(self._history.history_at, done.before_head)
        return before, await asyncio.to_thread(self._history.history_at, done.after_head)

    async def _compare(
        self, before: History, view: Sequence[Entry], result_of: Callable[[Iterable[HeldFact], TextLookup], T]
    ) -> T:
        tools, beside = self._tools.effects(), self.text_beside()

        @bulk_work()
        def compare() -> T:
            with self._lock:
                folded = before.list_folded(view)
                facts = self._ledger.facts_of(folded, view, tools)
            return result_of(facts, TextLookup(f"{text_shown(view)}\n{beside}"))

        return await asyncio.to_thread(compare)


def with_mended(loss: Loss, info: Mapping[str, Any] | None) -> Loss:
    """Return *loss* with the number of lines that *info* names as dropped from the summary."""
    return replace(loss, mended=len((info or {}).get("mended", ())))


def log_failure(counting: asyncio.Future[Loss]) -> None:
    """Log the failure of a report, which never fails a compaction."""
    error = None if counting.cancelled() else counting.exception()
    if error is not None and not isinstance(error, CancelledByToken):
        log_fault("a loss report", error)

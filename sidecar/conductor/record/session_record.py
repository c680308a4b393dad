"""The record of one session: everything that is kept of it, in memory and in its file.

The other parts of a session stand on the record: they change it and follow it, and it knows none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.contract import PlanEntry
from sidecar.conductor.contract import ContextUsage, Pin, PlanItem, TokenCounts, TurnEnd
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.errors import HeadMovedError
from sidecar.conductor.events import Notice
from sidecar.conductor.record.compactions import CompactionLog
from sidecar.conductor.record.history import HistoryWriter
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import Job, JobQueue, PromptQueue
from sidecar.conductor.record.session_events import OneTimeNotices, SessionEvents
from sidecar.conductor.record.work import SessionWork
from sidecar.conductor.records import SessionInfo, from_record, to_record
from sidecar.conductor.spending import Spending
from sidecar.llmgateway.contract import ModelCard
from sidecar.runtime.store import SessionJournal


class SessionRecord:
    """The record of one session.

    Attributes:
        sid: the session's id.
        info: its name, its place and its choices as they are now, stored as the ``meta`` record of its file.
        roots: its folders, the working folder first.
        todo: the model's todo list.
        log: the events.
        events: emits events into the log.
        notices: the notices that are given once.
        queue: the prompts that wait.
        work: whether it works, waits for its user, has failed or is idle.
        history: the conversation with all its branches.
        compactions: the compactions.
        spending: the tokens and their price.
        models: the models that the session may use.
        card: the card of the session's model, None for an unknown one. It is looked up when the model is
            chosen, when a turn begins and after each call, for a call may show that its window is another.
        clock_ms: returns the time in epoch milliseconds.
        new_id: makes an id.
    """

    def __init__(
        self, info: SessionInfo, journal: SessionJournal, deps: SessionDeps, jobs: JobQueue[Job]
    ) -> None:
        """Make the record of a session; the conversation is empty until it is loaded.

        Args:
            info: the session's values, as they are stored.
            journal: the writer of its file.
            deps: the parts of the daemon that every session uses.
            jobs: the session's jobs.
        """
        self.sid = info.sid
        self.info = info
        self.roots = (Path(info.cwd), *map(Path, info.roots))
        stored = (from_record(PlanEntry, entry) for entry in info.plan)
        self.todo = tuple(entry for entry in stored if entry is not None)
        self.log = EventLog(info.sid, deps.clock_ms, info.seq)
        self.events = SessionEvents(self.log, asyncio.get_running_loop().call_later)
        self.notices = OneTimeNotices(self.events.emit, deps.models.problems)
        self.queue = PromptQueue(jobs)
        self.work = SessionWork(self.queue, self.log, deps.clock_ms, end=info.end, since=info.updated_at)
        self.history = HistoryWriter(journal, self.queue, self.report_trouble)
        self.compactions = CompactionLog(info.sid)
        self.spending = Spending(
            from_record(TokenCounts, info.session_total),
            info.cost,
            day=deps.day,
            emit=self.events.emit,
            above=deps.spending,
        )
        with suppress(ValueError):  # of another version
            self.spending.choose(info.budget, deps.budgets)
        self.history.watch(self.spending.on_moved)
        # The session's own model, by the model that a command has for the running turn alone.
        self.own_models: dict[str, str] = {}
        self.models = deps.models
        self.card = deps.models.card(info.model)
        self.clock_ms = deps.clock_ms
        self.new_id = deps.new_id
        self._stored_followers: list[Callable[[], object]] = []
        self._one_at_a_time = asyncio.Lock()

    @property
    def window(self) -> int:
        """The window of the session's model in tokens, 0 for unknown."""
        return self.card.context_window if self.card is not None else 0

    def look_up_card(self) -> None:
        """Take over the card of the session's model as it is now."""
        self.card = self.models.card(self.info.model)

    def card_of(self, model: str) -> ModelCard | None:
        """Return the card of *model*, which need not be the session's any more."""
        return self.card if model == self.info.model else self.models.card(model)

    def amend(self, change: Callable[[SessionInfo], SessionInfo]) -> SessionInfo:
        """Change the values and return them."""
        self.info = change(self.info)
        return self.info

    def resize(self, usage: ContextUsage, now_ms: int, *, compacted: bool = False) -> None:
        """Take over the size of the conversation, which was changed just now."""
        self.info = replace(
            self.info,
            updated_at=now_ms,
            messages=len(self.history.current),
            tokens=usage.used,
            last_compaction_at=now_ms if compacted else self.info.last_compaction_at,
        )

    def plan_items(self) -> tuple[PlanItem, ...]:
        """Return the model's todo list as clients see it."""
        return tuple(PlanItem(entry.content, entry.status, entry.priority) for entry in self.todo)

    def pins(self) -> tuple[Pin, ...]:
        """Return the passages that the model always sees."""
        return tuple(filter(None, (from_record(Pin, pin) for pin in self.info.pins)))

    def check_head(self, expected: str | None) -> None:
        """Raise HeadMovedError unless the session stands at *expected*; None is anywhere."""
        if expected is not None and expected != self.history.head:
            raise HeadMovedError(self.sid, expected, self.history.head)

    def follow_stores(self, follower: Callable[[], object]) -> None:
        """Call *follower* whenever the values were stored."""
        self._stored_followers.append(follower)

    async def store(self, *, seq_is_last: bool = False) -> None:
        """Store the values; with *seq_is_last* the newest event is the last one of the session."""
        await self.history.append_records(self.take_record(seq_is_last=seq_is_last))
        await self.spending.day.flush()
        for follower in self._stored_followers:
            follower()

    def take_record(self, *, seq_is_last: bool = False) -> Mapping[str, Any]:
        """Return the record of the values as they are now, which is about to be stored."""
        running, end = self.queue.running, self.work.end
        if running is not None and running.item_id in self.queue.entered:
            end = self.work.closing or TurnEnd(turn_id=running.turn_id, head=self.history.head)
        self.info = replace(
            self.info,
            seq=self.log.seq,
            seq_is_last=seq_is_last,
            session_total=asdict(self.spending.total),
            cost=self.spending.cost,
            plan=tuple(map(asdict, self.todo)),
            end=end,
        )
        model = self.own_models.get(self.info.model, self.info.model)
        return to_record("meta", replace(self.info, model=model))

    async def store_queue(self) -> None:
        """Store the queue as it is now; it is on disk when this returns. Calls at one time share a write."""
        async with self._one_at_a_time:
            if self.queue.is_unstored:
                await self.history.append_records(self.queue.take_record())

    def report_trouble(self, error: SidecarError) -> None:
        """Notify the clients that *error* keeps the session from being stored."""
        why = error.message.rstrip(".")
        text = f"{why}. The conversation goes on in memory and is stored once that works again."
        self.events.emit(Notice("error", "The session cannot be stored", text))

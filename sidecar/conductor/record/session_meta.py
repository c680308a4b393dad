"""Everything known of a session besides its conversation, and the only place that changes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from sidecar.capabilities.contract import PlanEntry
from sidecar.conductor.contract import ContextUsage, PlanItem
from sidecar.conductor.errors import HeadMovedError
from sidecar.conductor.loss_values import Pin
from sidecar.conductor.ports import Models
from sidecar.conductor.record.history import HistoryWriter
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.records import SessionInfo, from_record, to_record
from sidecar.conductor.window.meter import ContextMeter
from sidecar.llmgateway.contract import ModelCard


class SessionMeta:
    """The name, place and choices of one session, stored as the ``meta`` record of its file.

    Attributes:
        info: the values as they are now.
        todo: the model's todo list.
    """

    def __init__(
        self,
        info: SessionInfo,
        models: Models,
        log: EventLog,
        history: HistoryWriter,
        meter: ContextMeter,
        on_store: Callable[[], None],
    ) -> None:
        """*on_store* is called whenever the session was stored."""
        self.info = info
        stored = (from_record(PlanEntry, entry) for entry in info.plan)
        self.todo = tuple(entry for entry in stored if entry is not None)
        # The session's own model, by the model that a command has for the running turn alone.
        self.own_models: dict[str, str] = {}
        self._models = models
        self._log = log
        self._history = history
        self._meter = meter
        self._on_store = on_store

    @property
    def card(self) -> ModelCard | None:
        """The card of the session's model, None for an unknown one."""
        return self._models.card(self.info.model)

    @property
    def window(self) -> int:
        """The window of the session's model in tokens, 0 for unknown."""
        card = self._models.card(self.info.model)
        return card.context_window if card is not None else 0

    def amend(self, change: Callable[[SessionInfo], SessionInfo]) -> SessionInfo:
        """Change the values and return them."""
        self.info = change(self.info)
        return self.info

    def resize(self, usage: ContextUsage, now_ms: int, *, compacted: bool = False) -> None:
        """Take over the size of the conversation, which was changed just now."""
        self.info = replace(
            self.info,
            updated_at=now_ms,
            messages=len(self._history.current),
            tokens=usage.used,
            last_compaction_at=now_ms if compacted else self.info.last_compaction_at,
        )

    def set_todo(self, entries: tuple[PlanEntry, ...]) -> None:
        """Replace the model's todo list."""
        self.todo = entries

    def plan_items(self) -> tuple[PlanItem, ...]:
        """Return the model's todo list as clients see it."""
        return tuple(PlanItem(entry.content, entry.status, entry.priority) for entry in self.todo)

    def pins(self) -> tuple[Pin, ...]:
        """Return the passages that the model always sees."""
        return tuple(filter(None, (from_record(Pin, pin) for pin in self.info.pins)))

    def check_head(self, expected: str | None) -> None:
        """Raise HeadMovedError unless the session stands at *expected*; None is anywhere."""
        if expected is not None and expected != self._history.head:
            raise HeadMovedError(self.info.sid, expected, self._history.head)

    async def store(self, *, seq_is_last: bool = False) -> None:
        """Store the values; with *seq_is_last* the newest event is the last one of the session."""
        self.info = replace(
            self.info,
            seq=self._log.seq,
            seq_is_last=seq_is_last,
            session_total=asdict(self._meter.session_total),
            cost=self._meter.cost,
            plan=tuple(map(asdict, self.todo)),
        )
        model = self.own_models.get(self.info.model, self.info.model)
        await self._history.append_records(to_record("meta", replace(self.info, model=model)))
        self._on_store()

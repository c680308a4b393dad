"""The queue of a session on disk: prompts that were acknowledged are not lost when the process ends.

The ``queue`` record holds the prompts that wait, and those on their way into the conversation. When one of
them enters it, its node and the record without it are stored in one piece, so that no crash loses or
repeats it. The next process holds the prompts of the record: clients can see, edit and remove them in the
queue. They run with the next prompt, because nobody may be there to watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sidecar.conductor.contract import Author
from sidecar.conductor.history import HistoryWriter
from sidecar.conductor.queue import PromptJob
from sidecar.conductor.records import from_record
from sidecar.llmgateway.contract import Turn


class StoredPrompt(msgspec.Struct, frozen=True):
    """A prompt of the queue as it is stored."""

    item_id: str
    content: tuple[dict[str, Any], ...]
    author: Author | None = None


class _Record(msgspec.Struct, frozen=True):
    """The ``queue`` record, without its type."""

    items: tuple[StoredPrompt, ...]


class StoredQueue:
    """The ``queue`` record of one session, kept as the queue is.

    Args:
        history: stores the record.
        pending: returns the prompts that are acknowledged and may not be part of the history yet, in order.

    Attributes:
        is_frozen: the process ends; the record stays as it is, for the next process.
    """

    def __init__(self, history: HistoryWriter, pending: Callable[[], Iterable[PromptJob]]) -> None:
        self.is_frozen = False
        self._history = history
        self._pending = pending
        self._stored: tuple[StoredPrompt, ...] = ()
        self._entered: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    def load(self, records: Sequence[Mapping[str, Any]]) -> Sequence[StoredPrompt]:
        """Return the prompts of the newest ``queue`` record among *records*."""
        newest: Mapping[str, Any] = next(
            (record for record in reversed(records) if record.get("type") == "queue"), {}
        )
        found = from_record(_Record, newest)
        self._stored = () if found is None else found.items
        return self._stored

    def begin_turn(self) -> None:
        """Forget the prompts of the turn before, which have entered the history or never will."""
        self._entered.clear()

    async def store(self) -> None:
        """Store the queue as it is now; it is on disk when this returns. Calls at one time share a write."""
        async with self._one_at_a_time:
            if self._items() != self._stored and not self.is_frozen:
                await self._history.append_records(self._take_record())

    def records_with(self, turns: Sequence[Turn]) -> Sequence[Mapping[str, Any]]:
        """Return the record of the queue without the prompts that enter the history as *turns*.

        There is none while the stored queue has none of them.
        """
        jobs = self._pending()
        entering = {job.item_id for job in jobs if any(job.turn is turn for turn in turns)}
        self._entered |= entering
        is_stored = any(item.item_id in entering for item in self._stored)
        return (self._take_record(),) if is_stored else ()

    def _items(self) -> tuple[StoredPrompt, ...]:
        return tuple(
            StoredPrompt(job.item_id, job.content, job.author)  # type: ignore[arg-type]  # JSON objects are dicts
            for job in self._pending()
            if job.item_id not in self._entered
        )

    def _take_record(self) -> Mapping[str, Any]:
        """Return the record of the queue as it is now, which is about to be stored."""
        self._stored = self._items()
        return {"type": "queue", **msgspec.to_builtins(_Record(self._stored))}

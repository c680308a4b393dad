"""A memory that keeps another one inside a token budget: truncate first, summarise when that is not enough.

The state is one chain of summaries for each room and channel, and the calls under way. Every event that the
inner memory returns is either in the result or was put whole before the summariser; what the inner window
leaves behind waits until it is worth a summary. No event is changed and no failure is remembered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from sidecar.rooms.ai import AIProvider
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.budget import Limits
from sidecar.rooms.memory.chain import Chain, extended
from sidecar.rooms.memory.flight import Flight, Flights
from sidecar.rooms.memory.notes import take_notes
from sidecar.rooms.memory.progress import Progress, stand_in
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.memory.reading import Reading, read, remembered, view_after, view_as_is
from sidecar.rooms.room import RoomContext

__all__ = ["SummarizingMemory"]

MAX_CONVERSATIONS = 200

Conversation: TypeAlias = tuple[str, str | None]
"""A room and the channel that asks: two channels may see different events, so they share no summary."""


class SummarizingMemory(MemoryProvider):
    """Keep what *inner* remembers within *max_context_tokens*, with the help of *provider*.

    Args:
        inner: the memory to keep in bounds.
        provider: a light model that writes the summaries; it may fail.
        max_context_tokens: what history and current event may cost together, by the rooms' own meter. Take
            off what the system prompt and the tools cost before setting it.
        tier1_ratio: above this share the long texts of the older half of the events are truncated.
        tier2_ratio: above this share the oldest events are summarised.
        truncate_chars: what tier 1 leaves of a text, in characters.
        summary_max_tokens: the longest summary to ask for.
        min_events: tier 2 leaves at least so many events as they are, where they fit at all.
        summary_cache_ttl_seconds: how long a summary is used before the events still at hand are summarised
            anew.
        clock: seconds, ascending; the event loop's time when not given.
        on_error: is told what the summariser raised, which the result only hints at. Contract: never raises.
    """

    def __init__(
        self,
        inner: MemoryProvider,
        provider: AIProvider,
        max_context_tokens: int,
        *,
        tier1_ratio: float = 0.5,
        tier2_ratio: float = 0.85,
        truncate_chars: int = 2000,
        summary_max_tokens: int = 1000,
        min_events: int = 5,
        summary_cache_ttl_seconds: float = 1800.0,
        clock: Callable[[], float] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._inner = inner
        self._provider = provider
        self._limits = Limits(
            max_context_tokens, tier1_ratio, tier2_ratio, truncate_chars, summary_max_tokens, min_events
        )
        self._ttl_seconds = summary_cache_ttl_seconds
        self._clock = clock
        self._on_error = on_error
        self._chains: OrderedDict[Conversation, Chain] = OrderedDict()
        self._flights: Flights[Conversation, str] = Flights()

    @property
    def name(self) -> str:
        """``SummarizingMemory(<inner>)``."""
        return f"SummarizingMemory({self._inner.name})"

    async def retrieve(
        self,
        room_id: str,
        current_event: RoomEvent,
        context: RoomContext,
        *,
        channel_id: str | None = None,
    ) -> MemoryResult:
        """Return the inner memory's result, reduced to the budget; the summariser's failures do not raise."""
        inner = await self._inner.retrieve(room_id, current_event, context, channel_id=channel_id)
        lane = (room_id, channel_id)
        while True:
            chain = self._chains.get(lane, Chain())
            reading = read(inner, context, current_event, chain, limits=self._limits, is_fresh=self._is_fresh)
            if reading.cut is None:
                self._keep(lane, remembered(reading))
                return view_as_is(reading)
            flight = self._flights.current(lane)
            if flight is None:
                flight = self._flights.start(lane, reading.key, partial(self._fold, lane, reading))
            summary = await self._flights.join(lane, flight)
            if flight.key == reading.key:
                return view_after(reading, summary or stand_in(reading, Progress(failure="raised")))

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Hand *event* to the inner memory."""
        await self._inner.ingest(room_id, event, channel_id=channel_id)

    async def clear(self, room_id: str) -> None:
        """Forget the summaries of this room and no other, then clear the inner memory."""
        self._flights.detach(lambda lane: lane[0] == room_id)
        for lane in [lane for lane in self._chains if lane[0] == room_id]:
            del self._chains[lane]
        await self._inner.clear(room_id)

    async def close(self) -> None:
        """End the calls under way, then close the inner memory and, whatever that does, the provider."""
        await self._flights.close()
        try:
            await self._inner.close()
        finally:
            await self._provider.close()

    async def _fold(self, lane: Conversation, reading: Reading, flight: Flight[str]) -> str:
        """Have the reading's material summarised, keep what was achieved, and return what stands for it."""
        progress = await take_notes(reading, self._provider, self._limits.summary_max_tokens, self._on_error)
        chain = remembered(reading)
        if progress.n_events:
            covered = {e.id: reading.known.marks[e.id] for e in reading.material[: progress.n_events]}
            chain = extended(chain, progress.notes, covered, reading.priors, self._now())
        if not flight.detached:
            self._keep(lane, chain)
        return stand_in(reading, progress)

    def _is_fresh(self, made_at: float) -> bool:
        return self._now() - made_at < self._ttl_seconds

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _keep(self, lane: Conversation, chain: Chain) -> None:
        """Keep *chain* as the one used last; the conversation quiet for longest makes room (fact K8)."""
        self._chains[lane] = chain
        self._chains.move_to_end(lane)
        while len(self._chains) > MAX_CONVERSATIONS:
            self._chains.popitem(last=False)

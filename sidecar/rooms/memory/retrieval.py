"""A memory that adds what knowledge sources find for the current event to what another memory remembers.

It keeps nothing itself; what is said in the room is handed on to the sources. A source that fails, hangs or
talks nonsense costs its own finds and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.rooms.content import DeleteContent, EditContent, query_text
from sidecar.rooms.events import RoomEvent, is_from_ai
from sidecar.rooms.memory.finds import knowledge_message, merged
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.memory.sources import OnSourceError, SourcePool
from sidecar.rooms.room import RoomContext
from sidecar.rooms.source import KnowledgeSource

__all__ = ["RetrievalMemory"]


class RetrievalMemory(MemoryProvider):
    """Put one message with the best finds of *sources* before what *inner* remembers.

    Args:
        sources: what to search, all at once.
        inner: the memory of the conversation.
        max_results: how many finds to show, over all sources.
        min_query_length: the shortest text to search for, in characters.
        max_tokens: the longest message to make of the finds.
        source_timeout_seconds: how long one call of a source may take.
        on_error: is told what a source did wrong, which the result does not show. Contract: never raises.
    """

    def __init__(
        self,
        sources: Sequence[KnowledgeSource],
        inner: MemoryProvider,
        *,
        max_results: int = 5,
        min_query_length: int = 3,
        max_tokens: int = 4000,
        source_timeout_seconds: float = 5.0,
        on_error: OnSourceError | None = None,
    ) -> None:
        self._pool = SourcePool(sources, source_timeout_seconds, on_error)
        self._inner = inner
        self._max_results = max_results
        self._min_query_length = min_query_length
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        """``RetrievalMemory(<inner>)``."""
        return f"RetrievalMemory({self._inner.name})"

    async def retrieve(
        self,
        room_id: str,
        current_event: RoomEvent,
        context: RoomContext,
        *,
        channel_id: str | None = None,
    ) -> MemoryResult:
        """Return the inner memory's result, behind what the sources find for the current event's text."""
        inner = await self._inner.retrieve(room_id, current_event, context, channel_id=channel_id)
        query = query_text(current_event.content)
        if not self._pool or not query or len(query) < self._min_query_length:
            return inner
        found = await self._pool.ask(
            lambda source: source.search(query, room_id=room_id, limit=self._max_results)
        )
        message = knowledge_message(merged(found, current_event, self._max_results), self._max_tokens)
        return inner if message is None else MemoryResult([message, *inner.messages], list(inner.events))

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Hand *event* to the inner memory, then its words to the sources.

        An edit replaces what was taken in under the edited event's id; a deletion takes it out. What an AI
        channel says is not knowledge, and is not taken in (failure B-K10).
        """
        await self._inner.ingest(room_id, event, channel_id=channel_id)
        content, event_id = event.content, event.id
        if isinstance(content, EditContent | DeleteContent):
            event_id = content.target_event_id
            await self._pool.ask(lambda source: source.delete((event_id,)))
        said = content.new_content if isinstance(content, EditContent) else content
        text = "" if is_from_ai(event) else query_text(said)
        if text:
            metadata = {"room_id": room_id, "event_id": event_id}
            await self._pool.ask(lambda source: source.index(text, metadata=metadata))

    async def clear(self, room_id: str) -> None:
        """Clear the inner memory and, whatever that does, what the sources took in from the room."""
        try:
            await self._inner.clear(room_id)
        finally:
            await self._pool.ask(lambda source: source.clear(room_id))

    async def close(self) -> None:
        """Close the inner memory and, whatever that does, all sources."""
        try:
            await self._inner.close()
        finally:
            await self._pool.close()

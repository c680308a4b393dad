"""A memory that adds the results of knowledge sources for the current event to another memory's context.

The problem: several sources are searched at once, and none can be trusted. A source may hang, raise before
its first await, return None, a score that is no number, scores of its own scale, or the current message
itself. So each source is called in a task of its own with a time limit, and its results are checked, scaled
and merged; a bad source costs its own results and nothing else.

Scores are 0 to 1. When a source gives one above 1, all of its scores are divided by its best, so that it does
not outshout the others: 8, 4 and 2 become 1, 0.5 and 0.25. A source that scores by distance has none above 0:
-0.25 and -3, near and far, become 0.8 and 0.25. Beside scores above 0 a negative one counts 0, and of results
that count alike the one that its source scored higher comes first. The same content is kept once, with its
higher score.

The memory keeps nothing itself; events of the room are passed on to the sources.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import DeleteContent, EditContent, RoomContext, RoomEvent, is_from_ai, query_text
from sidecar.rooms.memory.budget import truncate_text
from sidecar.rooms.memory.estimate import MESSAGE_OVERHEAD_TOKENS, chars_within
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.memory.summaries import KNOWLEDGE_MARK
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource

SHORTEST_EXCERPT_CHARS = 80

T = TypeVar("T")

OnSourceError: TypeAlias = Callable[[KnowledgeSource, BaseException], None]
"""Receives the failures of a source. Contract: never raises."""


class RetrievalMemory(MemoryProvider):
    """Put one message with the best results of *sources* before the context of *inner*.

    Args:
        sources: the sources to search, all at once.
        inner: the memory of the conversation.
        max_results: how many results to show, over all sources.
        min_query_length: the shortest text to search for, in characters.
        max_tokens: the longest message to make of the results.
        source_timeout_seconds: how long one call of a source may take.
        on_error: receives the failures of sources, which the result does not show. Contract: never raises.
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
        self._sources = tuple(sources)
        self._inner = inner
        self._max_results = max_results
        self._min_query_length = min_query_length
        self._max_tokens = max_tokens
        self._timeout_seconds = source_timeout_seconds
        self._on_error = on_error
        self._late: set[asyncio.Task[object]] = set()

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
        """Return the inner memory's result, behind the sources' results for the current event's text."""
        inner = await self._inner.retrieve(room_id, current_event, context, channel_id=channel_id)
        query = query_text(current_event.content)
        if not self._sources or not query or len(query) < self._min_query_length:
            return inner
        answers = await self._call_sources(
            lambda source: source.search(query, room_id=room_id, limit=self._max_results)
        )
        results = merge_results(answers, current_event, self._max_results)
        message = knowledge_message(results, self._max_tokens)
        return inner if message is None else MemoryResult([message, *inner.messages], list(inner.events))

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Pass *event* to the inner memory, then its text to the sources.

        An edit replaces the text indexed under the edited event's id; a deletion removes it. Messages of an
        AI channel are not knowledge, and are not indexed.
        """
        await self._inner.ingest(room_id, event, channel_id=channel_id)
        content, event_id = event.content, event.id
        if isinstance(content, EditContent | DeleteContent):
            event_id = content.target_event_id
            await self._call_sources(lambda source: source.delete((event_id,)))
        new_content = content.new_content if isinstance(content, EditContent) else content
        text = "" if is_from_ai(event) else query_text(new_content)
        if text:
            metadata = {"room_id": room_id, "event_id": event_id}
            await self._call_sources(lambda source: source.index(text, metadata=metadata))

    async def clear(self, room_id: str) -> None:
        """Clear the inner memory and, even if that fails, the sources' content from the room."""
        try:
            await self._inner.clear(room_id)
        finally:
            await self._call_sources(lambda source: source.clear(room_id))

    async def close(self) -> None:
        """Close the inner memory and, even if that fails, all sources; then wait once more for late calls."""
        try:
            await self._inner.close()
        finally:
            await self._call_sources(lambda source: source.close())
            if self._late:
                await asyncio.wait(self._late, timeout=self._timeout_seconds)

    async def _call_sources(self, request: Callable[[KnowledgeSource], Awaitable[T]]) -> list[T | None]:
        """Send *request* to all sources at once and return their answers in order; None for one that failed.

        A source that is late is cancelled and not waited for, even if it does not heed that.
        """

        async def call(source: KnowledgeSource) -> T:
            # Inside the task even an exception before the source's first await is contained.
            return await request(source)

        tasks = [asyncio.create_task(call(source)) for source in self._sources]
        for task in tasks:  # a caller that is cancelled takes no errors
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._timeout_seconds)
        finally:
            for task in tasks:
                if not task.done():
                    task.cancel()
                    self._late.add(task)
                    task.add_done_callback(self._late.discard)
        answers: list[T | None] = []
        for source, task in zip(self._sources, tasks, strict=True):
            error: BaseException | None
            if not task.done():
                error = TimeoutError(f"no answer in {self._timeout_seconds} s")
            elif task.cancelled():
                error = asyncio.CancelledError("the source cancelled its own call")
            else:
                error = task.exception()
            if error is not None and self._on_error is not None:
                self._on_error(source, error)
            answers.append(task.result() if error is None else None)
        return answers


def merge_results(answers: Sequence[object], current: RoomEvent, max_results: int) -> list[KnowledgeResult]:
    """Return the best results of several sources, best first, each content once.

    Args:
        answers: the answer of each source, unchecked.
        current: the event to be answered; a result made from that event itself is left out.
        max_results: how many to return.

    >>> from sidecar.rooms import EventSource, TextContent
    >>> event = RoomEvent(room_id="r", source=EventSource("c", "sms"), content=TextContent("why?"))
    >>> first = [KnowledgeResult("a", 0.2), KnowledgeResult("why?", 1.0)]
    >>> [result.content for result in merge_results([first, None, [KnowledgeResult("b", 0.4)]], event, 5)]
    ['b', 'a']
    """
    best: dict[str, KnowledgeResult] = {}
    for answer in answers:
        listed = answer if isinstance(answer, list | tuple) else ()
        sound = [
            each for each in listed if isinstance(each, KnowledgeResult) and isinstance(each.content, str)
        ]
        sound.sort(key=lambda result: read_score(result.score), reverse=True)
        scores = scale_scores([result.score for result in sound])
        for result, score in zip(sound, scores, strict=True):
            known = best.get(result.content)
            if known is None or score > known.score:
                best[result.content] = replace(result, score=score)
    kept = [each for each in best.values() if each.content.strip() and not is_echo(each, current)]
    return sorted(kept, key=lambda each: -each.score)[:max_results]


def scale_scores(given: Sequence[object]) -> list[float]:
    """Return one source's scores as numbers of 0 to 1; anything but a finite number counts 0."""
    scores = [read_score(score) for score in given]
    if max(scores, default=0.0) <= 0 and any(-math.inf < score < 0 for score in scores):
        return [1 / (1 - score) for score in scores]
    top = max([1.0, *scores])
    return [max(0.0, score) / top for score in scores]


def read_score(score: object) -> float:
    """Return *score* as a number; the lowest one for anything but a finite number.

    >>> read_score(1), read_score(None)
    (1.0, -inf)
    """
    return float(score) if isinstance(score, int | float) and math.isfinite(score) else -math.inf


def is_echo(result: KnowledgeResult, current: RoomEvent) -> bool:
    """Return whether *result* is *current*; a source that names no event ids is judged by its words."""
    metadata: object = result.metadata
    event_id = metadata.get("event_id") if isinstance(metadata, Mapping) else None
    if event_id is None:
        return result.content.strip() == query_text(current.content).strip()
    return bool(event_id == current.id)


def knowledge_message(results: Sequence[KnowledgeResult], max_tokens: int) -> AIMessage | None:
    """Return the message that lists *results*, at most *max_tokens* long; None for nothing to list.

    One result takes at most a quarter of the room while others wait behind it. Lines after the first of a
    result are indented, so that its text cannot pass for another item.

    >>> message = knowledge_message([KnowledgeResult("one\\n- [b] two", source="a")], 100)
    >>> message.content.splitlines()[1:]
    ['- [a] one', '  - [b] two']
    """
    left = chars_within(max_tokens - MESSAGE_OVERHEAD_TOKENS) - len(KNOWLEDGE_MARK)
    quarter = chars_within(max_tokens // 4)
    lines = [KNOWLEDGE_MARK]
    for position, result in enumerate(results, start=1):
        room = min(left - 1, quarter) if position < len(results) else left - 1
        label = f"[{' '.join(result.source.split())}] " if result.source else ""
        item = "- " + label + "\n  ".join(result.content.splitlines())
        if len(item) > room and room < SHORTEST_EXCERPT_CHARS:
            continue
        lines.append(truncate_text(item, room))
        left -= len(lines[-1]) + 1
    return AIMessage(role="user", content="\n".join(lines)) if len(lines) > 1 else None

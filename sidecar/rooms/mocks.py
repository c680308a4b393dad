"""Public doubles of the rooms' ports: they return configured results and record their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sidecar.rooms.ai import AIContext, AIProvider, AIResponse
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource


class SearchCall(NamedTuple):
    """The arguments of one :meth:`MockKnowledgeSource.search`."""

    query: str
    room_id: str | None
    limit: int


class IndexCall(NamedTuple):
    """The arguments of one :meth:`MockKnowledgeSource.index`."""

    content: str
    metadata: Mapping[str, Any] | None


class MockKnowledgeSource(KnowledgeSource):
    """A source that always returns *results*, or raises *error*; ``search_calls`` etc. hold its calls."""

    def __init__(
        self,
        results: Sequence[KnowledgeResult] | None = None,
        *,
        name: str = "mock",
        error: Exception | None = None,
    ) -> None:
        self.results = list(results or ())
        self.error = error
        self.search_calls: list[SearchCall] = []
        self.index_calls: list[IndexCall] = []
        self.delete_calls: list[tuple[str, ...]] = []
        self.clear_calls: list[str] = []
        self.closed = False
        self._name = name

    @property
    def name(self) -> str:
        """The configured name."""
        return self._name

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Record the call and return the first *limit* results."""
        self.search_calls.append(SearchCall(query, room_id, limit))
        self._raise_error()
        return self.results[:limit]

    async def index(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Record the call."""
        self.index_calls.append(IndexCall(content, metadata))
        self._raise_error()

    async def delete(self, event_ids: Sequence[str]) -> None:
        """Record the call."""
        self.delete_calls.append(tuple(event_ids))
        self._raise_error()

    async def clear(self, room_id: str) -> None:
        """Record the call."""
        self.clear_calls.append(room_id)
        self._raise_error()

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True
        self._raise_error()

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error


class MockAIProvider(AIProvider):
    """A model that gives *responses* in turn, from the first again after the last; an exception is raised.

    ``calls`` holds the context of every call.
    """

    def __init__(
        self,
        responses: Sequence[str | AIResponse | Exception] = ("mock response",),
        *,
        model_name: str = "mock",
        context_window: int | None = None,
    ) -> None:
        self.responses = tuple(responses)
        self.calls: list[AIContext] = []
        self.closed = False
        self._model_name = model_name
        self._context_window = context_window

    @property
    def model_name(self) -> str:
        """The configured name."""
        return self._model_name

    @property
    def context_window(self) -> int | None:
        """The configured window."""
        return self._context_window

    async def generate(self, context: AIContext) -> AIResponse:
        """Record *context* and give the next response."""
        response = self.responses[len(self.calls) % len(self.responses)]
        self.calls.append(context)
        if isinstance(response, Exception):
            raise response
        return AIResponse(response) if isinstance(response, str) else response

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True

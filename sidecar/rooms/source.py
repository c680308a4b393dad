"""The port of a knowledge source, anything that can be searched with words, and its public double.

Real sources live in :mod:`sidecar.rooms.knowledge`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import field

from sidecar._internal.values import Value


class KnowledgeResult(Value):
    """One result of a search. *score* is 0 to 1, higher is better; *source* names its origin, or is "".

    ``metadata["event_id"]`` names the event that the result was made from, where there is one.
    """

    content: str
    score: float = 0.0
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class KnowledgeSource(ABC):
    """A source of text. Only :meth:`search` must be written."""

    @property
    def name(self) -> str:
        """A readable name."""
        return type(self).__name__

    @abstractmethod
    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return the results for *query*, best first.

        Args:
            query: the words to look for.
            room_id: the room of the search.
            limit: the most results to return.
        """

    async def index(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Index *content*; *metadata* holds ``room_id`` and ``event_id``. Nothing by default."""
        return

    async def delete(self, event_ids: Sequence[str]) -> None:
        """Forget the contents indexed under *event_ids*. Nothing by default."""
        return

    async def clear(self, room_id: str) -> None:
        """Forget the contents indexed from *room_id*. Nothing by default."""
        return

    async def close(self) -> None:
        """Release the resources of the source. Nothing by default."""
        return


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

"""The port of a knowledge source: anything that can be searched with words.

The values and the abstract class only; real sources live in :mod:`sidecar.rooms.knowledge`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

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

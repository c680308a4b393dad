"""The port behind which knowledge sits: something that can be searched with words (facts 1.4).

The values and the abstract class only; real sources live in :mod:`sidecar.rooms.knowledge`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KnowledgeResult", "KnowledgeSource"]


@dataclass(frozen=True, slots=True)
class KnowledgeResult:
    """One find. *score* is 0 to 1, higher is better; *source* says where it is from, or is "".

    ``metadata["event_id"]`` names the event that a find was made from, where there is one.
    """

    content: str
    score: float = 0.0
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class KnowledgeSource(ABC):
    """Something that finds text. Only :meth:`search` must be written."""

    @property
    def name(self) -> str:
        """A name for people."""
        return type(self).__name__

    @abstractmethod
    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return at most *limit* finds for *query*, best first; *room_id* is the room that asks."""

    async def index(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Take in *content*; *metadata* holds ``room_id`` and ``event_id``. Nothing by default."""
        return

    async def delete(self, event_ids: Sequence[str]) -> None:
        """Forget what was taken in under *event_ids*. Nothing by default."""
        return

    async def clear(self, room_id: str) -> None:
        """Forget what was taken in from *room_id*. Nothing by default."""
        return

    async def close(self) -> None:
        """Release what the source holds. Nothing by default."""
        return

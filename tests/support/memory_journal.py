"""A journal that keeps the branches of a run in memory."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.contract import Turn


class MemoryJournal:
    """A journal in memory."""

    def __init__(self) -> None:
        self.turns: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._older: list[tuple[Turn, ...]] = []

    @property
    def branches(self) -> list[tuple[Turn, ...]]:
        """Every branch so far, the newest last."""
        return [*self._older, tuple(self.turns)]

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns* to the newest branch."""
        self.turns = self.turns.extended(turns)

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a branch with *turns*."""
        self._older.append(tuple(self.turns))
        self.turns = AppendOnlySeq(turns)

    async def load(self) -> Sequence[Turn]:
        """Return the newest branch."""
        return tuple(self.turns)

"""What may happen to a conversation between two turns: compact, undo, rewind, drop, restore files.

Each runs inside the session's queue, never beside a turn. What was there before stays stored on its branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sidecar.conductor.branching import with_partners
from sidecar.conductor.context import turn_tokens
from sidecar.conductor.contract import Compaction
from sidecar.conductor.core import Core
from sidecar.conductor.engines.base import CompactAsk, FreshFiles
from sidecar.conductor.errors import NodeNotFound
from sidecar.conductor.events import HeadChanged, Rehydrated
from sidecar.conductor.restoring import DEFAULT_BUDGET_TOKENS, Restoration, restore

__all__ = ["Changes", "HeadChange"]


@dataclass(frozen=True, slots=True)
class HeadChange:
    """The head after a change, the nodes the conversation held before and does not now, and their tokens."""

    head: str | None
    removed: tuple[str, ...]
    tokens: int


class Changes:
    """The changes of one session's conversation."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def compact(self, compaction_id: str, engine: str, ask: CompactAsk) -> Compaction:
        """Compact, asked for by hand."""
        done = await self._core.compactor.run(compaction_id, engine, ask, "manual")
        if done.status == "completed":
            await self._settle(compacted=True)
        return done

    async def undo(self, compaction_id: str | None, *, force: bool) -> Compaction:
        """Take a compaction back, the newest for None."""
        undone = await self._core.compactor.undo(compaction_id, force=force)
        self._core.files.forget_all_but(self._core.history.turns)
        await self._settle(compacted=True)
        return undone

    async def rewind(self, to_node: str | None) -> HeadChange:
        """Let the conversation end at *to_node*, on any branch; before everything for None.

        Raises NodeNotFound. What the turns left behind had read counts as never read.
        """
        core = self._core
        self._check_node(to_node)
        before = tuple(zip(core.history.node_ids, core.history.turns, strict=False))
        await core.history.move_head(to_node)
        kept = frozenset(core.history.node_ids)
        left = {node: turn for node, turn in before if node not in kept}
        core.files.forget_all_but(core.history.turns)
        return await self._moved("rewind", tuple(left), sum(map(turn_tokens, left.values())))

    async def drop(self, node_ids: Sequence[str]) -> HeadChange:
        """Go on without *node_ids*, on a branch of its own; calls and their results go together.

        Raises NodeNotFound for a node that is not in the conversation.
        """
        core = self._core
        if not node_ids:
            return HeadChange(core.history.head, (), 0)
        turns, ids = tuple(core.history.turns), tuple(core.history.node_ids)
        place = {node: index for index, node in enumerate(ids)}
        for node in node_ids:
            if node not in place:
                raise NodeNotFound(core.info.sid, node)
        gone = sorted(with_partners(turns, (place[node] for node in node_ids)))
        dropped = {ids[index]: turns[index] for index in gone}
        await core.history.replace([turn for index, turn in enumerate(turns) if ids[index] not in dropped])
        core.files.forget_all_but(core.history.turns)
        return await self._moved("drop", tuple(dropped), sum(map(turn_tokens, dropped.values())))

    async def restoration(
        self, uris: Sequence[str] | None, budget_tokens: int | None, read: FreshFiles | None = None
    ) -> Restoration:
        """Return what :meth:`rehydrate` would append; nothing is ever put beyond the engine's limit."""
        core = self._core
        wanting = await core.files.wanting(core.history.turns, core.history.node_ids, uris)
        budget = DEFAULT_BUDGET_TOKENS if budget_tokens is None else budget_tokens
        usage = core.usage()
        if usage.window:
            budget = min(budget, usage.limit - usage.used)
        return await restore(wanting, read or core.files.look, max(0, budget))

    async def rehydrate(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Restoration:
        """Append the files the model has read and no longer sees, or *uris* of them, as they are now."""
        core = self._core
        restored = await self.restoration(uris, budget_tokens, core.files.fresh)
        if restored.turns:
            await core.history.record(restored.turns)
            core.agent.reseat(core.history.turns, stored=True)
            core.files.mark_restored([file.uri for file in restored.files], core.deps.new_id())
        if restored.files or restored.missing:
            core.events.emit(Rehydrated(restored.files, restored.missing))
            await self._settle()
        return restored

    def _check_node(self, node: str | None) -> None:
        try:
            if node is not None:
                self._core.history.turns_at(node)
        except ValueError:
            raise NodeNotFound(self._core.info.sid, node or "") from None

    async def _moved(
        self, cause: Literal["rewind", "drop"], removed: tuple[str, ...], tokens: int
    ) -> HeadChange:
        core = self._core
        core.agent.reseat(core.history.turns, stored=True)
        core.events.emit(HeadChanged(core.history.head, removed, cause))
        await self._settle()
        return HeadChange(core.history.head, removed, tokens)

    async def _settle(self, *, compacted: bool = False) -> None:
        """Store and tell the new size of a conversation that was changed."""
        core, now = self._core, self._core.deps.clock_ms()
        usage = core.usage()
        core.info = replace(
            core.info,
            updated_at=now,
            messages=len(core.history.turns),
            tokens=usage.used,
            last_compaction_at=now if compacted else core.info.last_compaction_at,
        )
        await core.store_meta(core.log.seq + 1)
        core.events.emit(usage)

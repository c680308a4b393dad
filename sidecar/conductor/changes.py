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
from sidecar.conductor.engines.contract import CompactionRequest
from sidecar.conductor.errors import NodeNotFound
from sidecar.conductor.events import HeadChanged, Rehydrated
from sidecar.conductor.restoring import DEFAULT_BUDGET_TOKENS, Restoration, restore
from sidecar.conversation import Entry


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

    async def compact(self, compaction_id: str, engine: str, ask: CompactionRequest) -> Compaction:
        """Compact, asked for by hand."""
        done = await self._core.compactor.run(compaction_id, engine, ask, "manual")
        if done.status == "completed":
            await self._settle(compacted=True)
        return done

    async def undo(self, compaction_id: str | None, *, force: bool) -> Compaction:
        """Take a compaction back, the newest for None."""
        undone = await self._core.compactor.undo(compaction_id, force=force)
        await self._settle(compacted=True)
        return undone

    async def rewind(self, to_node: str | None) -> HeadChange:
        """Let the conversation end at *to_node*, on any branch; before everything for None.

        Raises NodeNotFound.
        """
        history = self._core.history
        try:
            after = history.history_at(to_node)
        except ValueError:
            raise NodeNotFound(self._core.info.sid, to_node or "") from None
        kept = frozenset(after.node_ids)
        removed = [entry for entry in history.current if entry.node_id not in kept]
        await history.move_head(to_node)
        return await self._publish_move("rewind", removed)

    async def drop(self, node_ids: Sequence[str]) -> HeadChange:
        """Go on without *node_ids*, on a branch of its own; calls and their results go together.

        Raises NodeNotFound for a node that is not in the conversation.
        """
        history = self._core.history.current
        if not node_ids:
            return HeadChange(history.head, (), 0)
        place = {node: index for index, node in enumerate(history.node_ids)}
        for node in node_ids:
            if node not in place:
                raise NodeNotFound(self._core.info.sid, node)
        dropped = with_partners(history.turns, (place[node] for node in node_ids))
        await self._core.history.replace(
            [entry for index, entry in enumerate(history) if index not in dropped]
        )
        return await self._publish_move("drop", [history[index] for index in sorted(dropped)])

    async def restoration(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Restoration:
        """Return what :meth:`rehydrate` would append; nothing is ever put beyond the engine's limit."""
        core = self._core
        wanting = await core.files.wanting(uris)
        budget = DEFAULT_BUDGET_TOKENS if budget_tokens is None else budget_tokens
        usage = core.usage()
        if usage.window:
            budget = min(budget, usage.limit - usage.used)
        return await restore(wanting, core.files.look, max(0, budget))

    async def rehydrate(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Restoration:
        """Append the files the model has read and no longer sees, or *uris* of them, as they are now."""
        core = self._core
        restored = await self.restoration(uris, budget_tokens)
        if restored.entries:
            await core.history.append(*restored.entries)
        if restored.files or restored.missing:
            core.events.emit(Rehydrated(restored.files, restored.missing))
            await self._settle()
        return restored

    async def _publish_move(self, cause: Literal["rewind", "drop"], removed: Sequence[Entry]) -> HeadChange:
        head, nodes = self._core.history.head, tuple(entry.node_id for entry in removed)
        self._core.events.emit(HeadChanged(head, nodes, cause))
        await self._settle()
        return HeadChange(head, nodes, sum(turn_tokens(entry.turn) for entry in removed))

    async def _settle(self, *, compacted: bool = False) -> None:
        """Store and tell the new size of a conversation that was changed."""
        core, now = self._core, self._core.deps.clock_ms()
        usage = core.usage()
        core.info = replace(
            core.info,
            updated_at=now,
            messages=len(core.history.current),
            tokens=usage.used,
            last_compaction_at=now if compacted else core.info.last_compaction_at,
        )
        await core.store_meta(core.log.seq + 1)
        core.events.emit(usage)

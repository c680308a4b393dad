"""Changes of a conversation between two turns: compact, undo, rewind, drop, restore files.

Each runs inside the session's queue, never beside a turn. The earlier conversation stays stored on its
branch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import attrgetter
from typing import Literal

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conductor.contract import Compaction
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import NodeNotFound
from sidecar.conductor.events import HeadChanged, Rehydrated
from sidecar.conductor.record.branching import digest_left, with_partners
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.conductor.window.compaction.file_use import rank_by_use
from sidecar.conductor.window.compaction.restoring import DEFAULT_BUDGET_TOKENS, Restoration, restore
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conductor.window.window import SessionWindow
from sidecar.conductor.workbench.files import shown_uri
from sidecar.conductor.workbench.kept_changes import TAKEN_BACK, FileRestore
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock
from sidecar.text.calls import touches_of_call


class HeadChange(Value):
    """A move of the head: the head after it, the nodes that left the conversation, and their tokens.

    *edited_files* are the URIs of the files that those nodes edited, and *changes* the ids of the changes of
    files that can be taken back. *files* are the files that were taken back, or left.
    """

    head: str | None
    removed: tuple[str, ...]
    tokens: int
    edited_files: tuple[str, ...] = ()
    changes: frozenset[str] = frozenset()
    files: tuple[FileRestore, ...] = ()


class UndoneCompaction(Value):
    """A compaction that was taken back, and the URIs of the files edited since; the rest as for a move."""

    compaction: Compaction
    edited_files: tuple[str, ...]
    changes: frozenset[str] = frozenset()
    files: tuple[FileRestore, ...] = ()


class Changes:
    """The changes of one session's conversation."""

    def __init__(
        self, record: SessionRecord, workbench: Workbench, window: SessionWindow, deps: SessionDeps
    ) -> None:
        self._record = record
        self._history = record.history
        self._compactor = window.compactor
        self._expander = window.expander
        self._request = window.request
        self._files = workbench.files
        self._checkpoints = workbench.checkpoints
        self._background = workbench.background
        self._tools = workbench.tools
        self._digests_branches = deps.compaction.branch_digests

    async def compact(self, compaction_id: str, request: CompactionRequest) -> Compaction:
        """Compact on request of a client; *request* names its engine."""
        done = await self._compactor.run(compaction_id, request, "manual")
        if done.status == "completed":
            await self._store_size(compacted=True)
        return done

    async def expand(self, request: ExpandRequest) -> Compaction:
        """Bring originals behind a summary back into view; raises as :meth:`Expander.expand`."""
        done = await self._expander.expand(request)
        await self._store_size()
        return done

    async def undo(
        self, compaction_id: str | None, *, force: bool, restores_files: bool = False
    ) -> UndoneCompaction:
        """Take a compaction back, the newest for None; raises as :meth:`Compactor.undo`.

        With *restores_files* the files that turns since then have changed are taken back.
        """
        with self._files.hold_reports():  # of files that are about to be taken back
            undone = await self._compactor.undo(compaction_id, force=force)
            await self._store_size(compacted=True)
            history = self._history.current
            later = [*takewhile(lambda entry: entry.node_id != undone.before_head, reversed(history))]

            def look() -> tuple[frozenset[str], tuple[str, ...]]:
                kept = history.first(len(history) - len(later)).node_ids
                changes = self._checkpoints.of_entries(later, kept, undone.before_head)
                return changes, self._edited_files(later, history)

            changes, edited = await asyncio.to_thread(look)
            files = await self._checkpoints.restore(changes) if restores_files else ()
            return UndoneCompaction(undone, edited, changes, files)

    async def rewind(self, to_node: str | None, *, restores_files: bool = False) -> HeadChange:
        """Let the conversation end at *to_node*, on any branch; before everything for None.

        A digest of the branch that it leaves waits for the next prompt. With *restores_files* the files that
        the turns taken back have changed are taken back as well. Raises NodeNotFound.
        """
        with self._files.hold_reports():  # of files that are about to be taken back
            history = self._history
            left = self._record.info.left_head or history.head
            try:
                target = await history.prepare_move(to_node)
            except ValueError:
                raise NodeNotFound(self._record.sid, to_node or "") from None
            removed, kept = await asyncio.to_thread(self.find_removed, target)
            await history.move_to(target)
            if self._digests_branches:
                digest = await asyncio.to_thread(digest_left, history.graph, left, to_node)
                self._record.amend(
                    lambda info: replace(info, left_branch=digest, left_head=left if digest else None)
                )
            moved = await self._publish_move("rewind", removed)
            changes = await asyncio.to_thread(self._checkpoints.of_entries, removed, kept, to_node)
            files = await self._checkpoints.restore(changes) if restores_files else ()
            return replace(moved, changes=changes, files=files)

    def changes_since(self, to_node: str | None) -> frozenset[str]:
        """Return the ids of the changes of files that a rewind to *to_node* can take back.

        Raises NodeNotFound.
        """
        return self._checkpoints.of_entries(*self.find_removed(self._history_at(to_node)), to_node)

    def changes_since_compaction(self, compaction_id: str | None) -> frozenset[str]:
        """Return the ids of the changes of files that the undo of a compaction can take back.

        Args:
            compaction_id: the compaction, or None for the newest that can be undone.

        Raises:
            CompactionNotFound: there is no such compaction, or it cannot be undone.
        """
        target = self._compactor.find_undoable(compaction_id)
        kept = frozenset(self._history_at(target.before_head).node_ids)
        newest = reversed(self._history.current)
        ends = (target.after_head, target.before_head)
        later = [*takewhile(lambda entry: entry.node_id not in ends, newest)]
        return self._checkpoints.of_entries(later, kept, target.before_head)

    def _history_at(self, to_node: str | None) -> History:
        try:
            return self._history.history_at(to_node)
        except ValueError:
            raise NodeNotFound(self._record.sid, to_node or "") from None

    def find_removed(self, target: History) -> tuple[Sequence[Entry], frozenset[str]]:
        """Return the entries that a move to *target* takes away, and the nodes that stay."""
        kept = frozenset(target.node_ids)
        return [entry for entry in self._history.current if entry.node_id not in kept], kept

    async def drop(self, node_ids: Sequence[str]) -> HeadChange:
        """Go on without *node_ids*, on a branch of its own; calls and their results go together.

        Raises NodeNotFound for a node that is not in the conversation.
        """
        history = self._history.current
        if not node_ids:
            return HeadChange(history.head, (), 0)

        def part() -> tuple[Sequence[Entry], Sequence[Entry]]:
            place = {node: index for index, node in enumerate(history.node_ids)}
            for node in node_ids:
                if node not in place:
                    raise NodeNotFound(self._record.sid, node)
            dropped = with_partners(history.turns, (place[node] for node in node_ids))
            kept = [entry for index, entry in enumerate(history) if index not in dropped]
            return kept, [history[index] for index in sorted(dropped)]

        kept, removed = await asyncio.to_thread(part)
        await self._history.replace(await self._history.prepare_branch(kept))
        return await self._publish_move("drop", removed)

    async def restoration(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Restoration:
        """Return the restoration of :meth:`rehydrate`, which never goes beyond the engine's limit."""
        if budget_tokens is not None and budget_tokens < 0:
            raise InvalidInput(f"budget is {budget_tokens}", hint="give a number of tokens, 0 or more")
        wanting = await self._files.find_wanted(uris)
        if uris is None:
            history, uri_of = self._history.current, self._files.uri_of
            uses = await asyncio.to_thread(
                rank_by_use,
                history,
                self._tools.effects(),
                shown={},
                first_kept=len(history),
                key_of=uri_of,
            )
            place = {uri_of(use.path): number for number, use in enumerate(uses)}
            wanting = tuple(sorted(wanting, key=lambda each: place.get(each[1].uri, len(place))))
        budget = DEFAULT_BUDGET_TOKENS if budget_tokens is None else budget_tokens
        usage = self._request.usage()
        if usage.window:
            budget = min(budget, usage.limit - usage.used)
        return await restore(wanting, self._files.look, max(0, budget))

    async def restore_files(self, wanted: Collection[str]) -> tuple[FileRestore, ...]:
        """Take back the changes *wanted* of files; the model is told with the next prompt."""
        files = await self._checkpoints.restore(wanted)
        folder = self._record.roots[0]
        names = ", ".join(shown_uri(each.uri, folder) for each in files if each.outcome in TAKEN_BACK)
        if names:
            self._background.news[names] = (
                f"[the user has taken back changes of {names}; read again before an edit]"
            )
        return files

    async def rehydrate(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Restoration:
        """Append the files the model has read and no longer sees, or *uris* of them, as they are now."""
        restored = await self.restoration(uris, budget_tokens)
        if restored.entries:
            await self._history.append(*restored.entries)
        if restored.files or restored.missing:
            self._record.events.emit(Rehydrated(restored.files, restored.missing))
            await self._store_size()
        return restored

    async def _publish_move(self, cause: Literal["rewind", "drop"], removed: Sequence[Entry]) -> HeadChange:
        head, nodes = self._history.head, tuple(map(attrgetter("node_id"), removed))
        # In a thread: a rewind to the beginning removes as much as there is.
        edited = await asyncio.to_thread(self._edited_files, removed, self._history.current)
        tokens = await asyncio.to_thread(sum, map(entry_tokens, removed))
        self._record.events.emit(HeadChanged(head, nodes, cause, edited))
        await self._store_size()
        return HeadChange(head, nodes, tokens, edited)

    def _edited_files(self, entries: Sequence[Entry], history: History) -> tuple[str, ...]:
        """Return the URIs of the files that *entries* edited, or entries behind them that *history* lacks."""
        effects = self._tools.effects()
        kept = frozenset(history.node_ids)
        known = self._history.graph.entries
        folded = (
            known[node] for entry in entries for node in entry.origin if node in known and node not in kept
        )
        all_blocks = [block for entry in (*entries, *folded) for block in entry.turn.blocks]
        results = {block.call_id: block for block in all_blocks if isinstance(block, ToolResultBlock)}
        edited = dict[str, None]()
        for block in all_blocks:
            if isinstance(block, ToolCallBlock):
                result = results.get(block.id)
                body = result.output if result is not None and isinstance(result.output, str) else ""
                is_error = result is not None and bool(result.is_error)
                declared = effects.get(block.name)
                for touch in touches_of_call(block.name, block.input, body, declared, is_error=is_error):
                    for path in touch.changed_paths:
                        edited[self._files.uri_of(path)] = None
        return tuple(edited)

    async def _store_size(self, *, compacted: bool = False) -> None:
        """Store and publish the new size of the conversation."""
        usage = self._request.usage()
        self._record.resize(usage, self._record.clock_ms(), compacted=compacted)
        await self._record.store()
        self._record.events.emit(usage)

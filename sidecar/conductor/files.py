"""The files of one session: where its tools may look, what its model has read, and how they are now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import ContextFile
from sidecar.conductor.engines.base import FreshFile
from sidecar.conductor.events import FileFresh, FileStale
from sidecar.conductor.session_ops import turns_to_messages
from sidecar.llmgateway.contract import ToolResultBlock, Turn, UserTurn
from sidecar.window_budget import estimate_message_tokens
from sidecar.workspace.contract import (
    Dispose,
    FileProblem,
    FileView,
    ReadLedgerPort,
    ReadRecord,
    StaleFile,
    WorkspacePort,
)

__all__ = ["SessionFiles", "joined_reads"]


class SessionFiles:
    """The files of one session; *roots* begin with its folder.

    *resolve* turns a path as the model wrote it into a resolved one.
    """

    def __init__(
        self,
        sid: str,
        workspace: WorkspacePort,
        roots: Sequence[Path],
        *,
        resolve: Callable[[str], Path],
        tell: Callable[[FileStale | FileFresh], None],
    ) -> None:
        self._sid = sid
        self._cwd = roots[0]
        self._workspace = workspace
        self._resolve = resolve
        self._tell = tell
        self._restored: dict[str, FileView] = {}
        self._restored_calls: set[str] = set()
        self._watches: list[Dispose] = [workspace.watch(root) for root in roots]
        self.ledger: ReadLedgerPort = workspace.ledger(sid, self._on_stale, self._on_fresh)

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take over the ``reads`` records of the store, oldest first."""
        self.ledger.load(each for record in records for each in _files_in(record))

    def take_news(self) -> tuple[Mapping[str, Any], ...]:
        """Return a record of what the model has read since the last call; none when it has read nothing."""
        news = self.ledger.take_news()
        return (_reads_record(news),) if news else ()

    def to_record(self) -> Mapping[str, Any]:
        """Return one record of all that the model has read."""
        return _reads_record(self.ledger.dump())

    async def look(self, paths: Sequence[str]) -> Mapping[str, FreshFile]:
        """Read *paths* as they are now; one that cannot be read says why."""
        return {path: (await self._fresh(path))[0] for path in paths}

    async def fresh(self, paths: Sequence[str]) -> Mapping[str, FreshFile]:
        """Read *paths* as :meth:`look` does, for a model that is going to see them."""
        found = {path: await self._fresh(path) for path in paths}
        self._restored = {view.uri: view for _, view in found.values() if view is not None}
        return {path: fresh for path, (fresh, _) in found.items()}

    def uri_of(self, path: str) -> str:
        """Return the URI of a file as the model named it; the path itself when it names none."""
        try:
            return self._resolve(path).as_uri()
        except FileProblem:
            return path

    def mark_restored(self, uris: Sequence[str], compaction_id: str) -> None:
        """The model has now seen the files that :meth:`fresh` read last and a compaction put back."""
        self._restored_calls.add(compaction_id)
        for uri in uris:
            if (view := self._restored.get(uri)) is not None:
                self.ledger.record(view, call_id=compaction_id)
        self._restored = {}

    def wanting(
        self, turns: Sequence[Turn], node_ids: Sequence[str], uris: Sequence[str] | None
    ) -> tuple[tuple[str, ReadRecord], ...]:
        """Return what the model should see again, newest first, each under the path the model knows.

        That is what it has read and no longer sees, or sees as it was; with *uris* just those. Raises
        InvalidInput for one that was never read.
        """
        records = {record.uri: record for record in reversed(self.ledger.files())}
        if uris is None:
            seen = self.in_context(turns, node_ids)
            uris = [file.uri for file in reversed(seen) if file.stale or not file.in_window]
        unread = [uri for uri in uris if uri not in records]
        if unread:
            hint = "sidecar/context/files names what was read; to show another file, name it in a prompt"
            raise InvalidInput(f"{unread[0]!r} was not read in this session", hint=hint)
        return tuple((self._shown(records[uri].path), records[uri]) for uri in dict.fromkeys(uris))

    def forget_calls(self, turns: Sequence[Turn]) -> None:
        """The model does not know of *turns* any more: what they read counts as never read."""
        calls = _answered_calls(turns)
        self.ledger.forget([record.path for record in self.ledger.files() if record.call_id in calls])

    def forget_all_but(self, turns: Sequence[Turn]) -> None:
        """The model knows of nothing but *turns*: what others read counts as never read."""
        calls = _answered_calls(turns)
        self.ledger.forget([record.path for record in self.ledger.files() if record.call_id not in calls])

    def in_context(self, turns: Sequence[Turn], node_ids: Sequence[str]) -> tuple[ContextFile, ...]:
        """Return what the model has read, with the tokens each read takes in *turns*."""
        seen = _results(turns, node_ids)
        return tuple(self._context_file(record, seen) for record in self.ledger.files())

    def close(self) -> None:
        """Stop watching and forget the ledger."""
        for dispose in self._watches:
            dispose()
        self._watches.clear()
        self._workspace.drop_ledger(self._sid)

    async def _fresh(self, path: str) -> tuple[FreshFile, FileView | None]:
        try:
            view = await self._workspace.view(self._resolve(path))
        except FileProblem as problem:
            return FreshFile(path, None, None, "disk", problem.problem), None
        return FreshFile(view.uri, view.text, view.hash, view.source), view

    def _shown(self, path: Path) -> str:
        """Return *path* as the model would write it."""
        return path.relative_to(self._cwd).as_posix() if path.is_relative_to(self._cwd) else str(path)

    def _context_file(self, record: ReadRecord, seen: Mapping[str, _Seen]) -> ContextFile:
        result = seen.get(record.call_id, _UNSEEN)
        return ContextFile(
            uri=record.uri,
            hash=record.hash,
            source=record.source,
            read_at_node=result.node,
            tokens=result.tokens,
            stale=self.ledger.is_stale(record.path),
            in_window=record.call_id in seen or record.call_id in self._restored_calls,
            buffer_version=record.version,
            turns_ago=result.turns_ago,
        )

    def _on_stale(self, stale: StaleFile) -> None:
        self._tell(FileStale(stale.uri, stale.read_hash, stale.now_hash, stale.source))

    def _on_fresh(self, uri: str) -> None:
        self._tell(FileFresh(uri))


def _reads_record(files: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return *files*, as a ledger gives them, as a record of the store."""
    return {"type": "reads", "files": list(files)}


def joined_reads(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the ``reads`` records among *records* as one."""
    reads = (record for record in records if record.get("type") == "reads")
    return _reads_record([each for record in reads for each in _files_in(record)])


def _files_in(record: Mapping[str, Any]) -> Sequence[Any]:
    files = record.get("files")
    return files if isinstance(files, list) else ()


def _answered_calls(turns: Sequence[Turn]) -> frozenset[str]:
    return frozenset(
        block.call_id for turn in turns for block in turn.blocks if isinstance(block, ToolResultBlock)
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """A tool result in the conversation: its node, its tokens, and the prompts that came after its turn's."""

    node: str | None = None
    tokens: int = 0
    turns_ago: int | None = None


_UNSEEN: Final = _Seen()


def _results(turns: Sequence[Turn], node_ids: Sequence[str]) -> dict[str, _Seen]:
    """Return for each tool result in *turns* what is known of it, by call id."""
    found: dict[str, _Seen] = {}
    n_later = sum(isinstance(turn, UserTurn) for turn in turns)
    for index, turn in enumerate(turns):
        n_later -= isinstance(turn, UserTurn)
        results = [block for block in turn.blocks if isinstance(block, ToolResultBlock)]
        if results:
            node = node_ids[index] if index < len(node_ids) else None
            weights = [estimate_message_tokens(message) for message in turns_to_messages((turn,))]
            for block, tokens in zip(results, weights, strict=False):
                found[block.call_id] = _Seen(node, tokens, n_later)
    return found

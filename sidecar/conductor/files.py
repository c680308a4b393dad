"""The files of one session: where its tools may look, what its model has read, and how they are now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import ContextFile
from sidecar.conductor.engines.base import FreshFile
from sidecar.conductor.events import FileFresh, FileStale
from sidecar.conductor.session_ops import turns_to_messages
from sidecar.llmgateway.contract import ToolResultBlock, Turn, UserTurn
from sidecar.window_budget import estimate_message_tokens
from sidecar.workspace.contract import (
    Dispose,
    FileAccessError,
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
        self._seen = _SeenResults()
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
        except FileAccessError:
            return path

    def mark_restored(self, uris: Sequence[str], compaction_id: str) -> None:
        """The model has now seen the files that :meth:`fresh` read last and a compaction put back."""
        self._restored_calls.add(compaction_id)
        for uri in uris:
            if (view := self._restored.get(uri)) is not None:
                self.ledger.record(view, call_id=compaction_id)
        self._restored = {}

    async def wanting(
        self, turns: Sequence[Turn], node_ids: Sequence[str], uris: Sequence[str] | None
    ) -> tuple[tuple[str, ReadRecord], ...]:
        """Return what the model should see again, newest first, each under the path the model knows.

        That is what it has read and no longer sees, or sees as it was: the files themselves are asked, for
        nobody may have told of a change yet. With *uris* it is just those. Raises InvalidInput for one that
        was never read.
        """
        records = {record.uri: record for record in reversed(self.ledger.files())}
        if uris is None:
            seen = reversed(self.in_context(turns, node_ids))
            uris = [
                file.uri for file in seen if not file.in_window or await self._is_other(records[file.uri])
            ]
        unread = [uri for uri in uris if uri not in records]
        if unread:
            hint = "sidecar/context/files names what was read; to show another file, name it in a prompt"
            raise InvalidInput(f"{unread[0]!r} was not read in this session", hint=hint)
        return tuple((self._shown(records[uri].path), records[uri]) for uri in dict.fromkeys(uris))

    def forget_all_but(self, turns: Sequence[Turn]) -> None:
        """Forget every read that *turns* do not show, after the conversation was moved.

        A restored file is shown by no tool result, so it counts as never read as well: the model is asked to
        read once more, and nobody's work is overwritten.
        """
        calls = _answered_calls(turns)
        self.ledger.forget([record.path for record in self.ledger.files() if record.call_id not in calls])

    def in_context(self, turns: Sequence[Turn], node_ids: Sequence[str]) -> tuple[ContextFile, ...]:
        """Return what the model has read, with the tokens each read takes in *turns*."""
        self._seen.sync(turns)
        return tuple(self._context_file(record, node_ids) for record in self.ledger.files())

    def close(self) -> None:
        """Stop watching and forget the ledger."""
        for dispose in self._watches:
            dispose()
        self._watches.clear()
        self._workspace.drop_ledger(self._sid)

    async def _is_other(self, record: ReadRecord) -> bool:
        """Whether a file is not what was read."""
        fresh, _ = await self._fresh(str(record.path))
        return fresh.hash != record.hash

    async def _fresh(self, path: str) -> tuple[FreshFile, FileView | None]:
        try:
            view = await self._workspace.view(self._resolve(path))
        except FileAccessError as problem:
            return FreshFile(path, None, None, "disk", problem.problem), None
        return FreshFile(view.uri, view.text, view.hash, view.source), view

    def _shown(self, path: Path) -> str:
        """Return *path* as the model would write it."""
        return path.relative_to(self._cwd).as_posix() if path.is_relative_to(self._cwd) else str(path)

    def _context_file(self, record: ReadRecord, node_ids: Sequence[str]) -> ContextFile:
        seen = self._seen.get(record.call_id)
        node = seen is not None and node_ids[seen.turn_index : seen.turn_index + 1]
        return ContextFile(
            uri=record.uri,
            hash=record.hash,
            source=record.source,
            read_at_node=node[0] if node else None,
            tokens=seen.tokens if seen is not None else 0,
            stale=self.ledger.is_stale(record.path),
            in_window=seen is not None or record.call_id in self._restored_calls,
            buffer_version=record.version,
            turns_ago=self._seen.prompts_since(seen) if seen is not None else None,
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
    """A tool result in the conversation: its turn, its tokens, and the prompts up to that turn."""

    turn_index: int
    tokens: int
    n_prompts: int


class _SeenResults:
    """The tool results that a conversation holds, by call. Each turn is weighed once."""

    def __init__(self) -> None:
        self._turns: Sequence[Turn] = ()
        self._n_turns = 0
        self._n_prompts = 0
        self._found: dict[str, _Seen] = {}

    def sync(self, turns: Sequence[Turn]) -> None:
        """Take in what is new in *turns*; another list is another conversation."""
        if turns is not self._turns or len(turns) < self._n_turns:
            self._turns, self._n_turns, self._n_prompts, self._found = turns, 0, 0, {}
        for index in range(self._n_turns, len(turns)):
            self._add(index, turns[index])
        self._n_turns = len(turns)

    def get(self, call_id: str) -> _Seen | None:
        """Return the result of *call_id*, None where the conversation does not hold it."""
        return self._found.get(call_id)

    def prompts_since(self, seen: _Seen) -> int:
        """Return how many prompts came after *seen*."""
        return self._n_prompts - seen.n_prompts

    def _add(self, index: int, turn: Turn) -> None:
        self._n_prompts += isinstance(turn, UserTurn)
        results = [block for block in turn.blocks if isinstance(block, ToolResultBlock)]
        if results:
            weights = [estimate_message_tokens(message) for message in turns_to_messages((turn,))]
            for block, tokens in zip(results, weights, strict=False):
                self._found[block.call_id] = _Seen(index, tokens, self._n_prompts)

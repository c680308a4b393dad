"""The files of one session: its folders, the ranges that its model has seen, and their newest content.

The seen ranges are an index over the session's history, with the reads of results that are not part of it
yet. The workspace compares each of those files with its newest content.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sidecar._internal.env import expand_home
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import ContextFile
from sidecar.conductor.engine import FreshFile
from sidecar.conductor.errors import FolderNotFound
from sidecar.conductor.events import FileFresh, FileStale
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.records import FileRename
from sidecar.conductor.token_estimate import estimate_block_tokens
from sidecar.conversation import (
    Entry,
    FileRead,
    FilesSeen,
    History,
    SeenFile,
    files_seen_index,
    merge_ranges,
    merge_reads,
)
from sidecar.llmgateway.contract import ToolResultBlock
from sidecar.workspace.contract import Dispose, FileAccessError, FileView, StaleFile
from sidecar.workspace.globs import glob_matcher
from sidecar.workspace.paths import path_to_uri, uri_to_path
from sidecar.workspace.workspace import Workspace

_MAX_ROOTS = 100


class SessionFiles:
    """The files of one session. Its tools record their reads here (``ReadsPort``)."""

    def __init__(
        self, record: SessionRecord, workspace: Workspace, resolve: Callable[[str, Path], Path]
    ) -> None:
        """Watch the session's folders.

        Args:
            record: the session, with its folders and its conversation.
            workspace: the files as they are now.
            resolve: makes a path that the model wrote in a folder absolute; raises FileAccessError.
        """
        self._sid = record.sid
        self._roots = record.roots
        self._cwd = record.roots[0]
        self._workspace = workspace
        self._history = record.history
        self._resolve_in = resolve
        self._index = files_seen_index(_tokens_of_read, record.history.read_now)
        record.history.follow(self)
        record.history.watch(self._on_moved)
        self._synced: FilesSeen | None = None
        self.pending: dict[str, None] = {}
        self._watches: list[Dispose] = [workspace.watch(root) for root in record.roots]
        emit = record.events.emit

        def report_stale(stale: StaleFile) -> None:
            emit(FileStale(stale.uri, stale.read_hash, stale.now_hash, stale.source))

        self._tracker = workspace.tracker(record.sid, report_stale, lambda uri: emit(FileFresh(uri)))

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        """Record that the result of *call_id* shows *view*, or a range of its lines, to the model."""
        read = as_read(view, call_id=call_id, first_line=first_line, line_count=line_count)
        self._history.note_read(read)
        self.pending[read.path] = None
        self._track(read.path)

    def has_read(self, rename: FileRename) -> bool:
        """Return whether the model has read a file of *rename*."""
        seen = self._index.of(self._history.current)
        return any(rename.path_now(path) != path for path in seen.files | self.pending)

    def rename(self, rename: FileRename) -> None:
        """Know files that the model has read by their new paths."""
        self._history.note_rename(rename)
        self._index.of(self._history.current).rename(rename.read_now)
        self.sync()

    def path_now(self, path: Path) -> Path:
        """Return the path that the user has given to the file *path* since the model read it there."""
        named = str(path)
        if self._known_read(named) is None:
            for rename in self._history.renames:
                named = rename.path_now(named)
        return Path(named)

    def prepare(self, history: History) -> None:
        """Take in *history*, to which the conversation is about to move."""
        self._index.prepare(history)

    def forget(self) -> None:
        """Let go of the conversation."""
        self._index.forget()
        self._synced = None

    def get(self, path: Path) -> FileRead | None:
        """Return the newest content of the resolved *path* that the model has seen, None for none."""
        return self._known_read(str(path))

    @property
    def seen_paths(self) -> tuple[Path, ...]:
        """The files that the model has seen, the least recently shown first."""
        return tuple(map(Path, self._index.of(self._history.current).files | self.pending))

    def shows(self, view: FileView) -> bool:
        """Return whether the model sees *view* with this content, in the history or in a result behind it."""
        path = str(view.path)
        if any(read.path == path and read.hash == view.hash for read in self._history.pending_reads):
            return True
        seen = self._index.of(self._history.current).files.get(path)
        return seen is not None and seen.in_view and seen.read.hash == view.hash

    def fold(self) -> None:
        """Take in the conversation; may run in a thread."""
        self._index.of(self._history.current)

    def sync(self) -> None:
        """Track the files as the history now shows them. Costs the new entries while the history grows."""
        seen = self._index.of(self._history.current)
        changed = dict.fromkeys(seen.take_touched()) | self.pending
        if seen is not self._synced:
            changed |= dict.fromkeys(map(str, self._tracker.paths)) | dict.fromkeys(seen.files)
            self._synced = seen
        self.pending = {read.path: None for read in self._history.pending_reads}
        for path in changed:
            self._track(path)

    def _on_moved(self, appended: Sequence[Entry] | None) -> None:
        if appended is None or self.pending or any(entry.reads for entry in appended):
            self.sync()

    def _resolve(self, path: str) -> Path:
        return self.path_now(self._resolve_in(path, self._cwd))

    async def look(self, paths: Sequence[str]) -> Mapping[str, FreshFile]:
        """Read *paths* as they are now; one that cannot be read says why."""
        return {path: await self._fresh(path) for path in paths}

    def uri_of(self, path: str) -> str:
        """Return the URI of a file as the model named it; the path itself when it names none."""
        try:
            return self._resolve(path).as_uri()
        except FileAccessError:
            return path

    def is_stale(self, path: str) -> bool:
        """Whether the file that the model named *path* is known to have changed since it was shown."""
        try:
            return self._tracker.is_stale(self._resolve(path))
        except FileAccessError:
            return False

    async def find_wanted(self, uris: Sequence[str] | None) -> tuple[tuple[str, FileRead], ...]:
        """Return the files that the model should see again, newest first, each under the path it knows.

        Args:
            uris: just these files; None for every file that the model has seen and does not see as it is now.
                The files themselves are compared, for a change may not have been reported yet.

        Raises:
            InvalidInput: one of *uris* was never read.
        """
        seen = [*reversed(self._index.of(self._history.current).files.values())]
        reads = {each.read.uri: each.read for each in reversed(seen)}
        if uris is None:
            uris = []
            for each in seen:
                fresh = (await self._fresh(each.read.path)).read if each.in_view else None
                if fresh is None or fresh.hash != each.read.hash:
                    uris.append(each.read.uri)
        unread = [uri for uri in uris if uri not in reads]
        if unread:
            hint = "sidecar/context/files names what was read; to show another file, name it in a prompt"
            raise InvalidInput(f"{unread[0]!r} was not read in this session", hint=hint)
        chosen = [reads[uri] for uri in dict.fromkeys(uris)]
        return tuple((shown_path(Path(read.path), self._cwd), read) for read in chosen)

    async def list_in_context(self) -> tuple[ContextFile, ...]:
        """Return every file that the model has seen, the least recently shown first.

        Files that are just being compared with their newest content are waited for.
        """
        await self._workspace.wait_for_checks(self._tracker.paths)
        seen = self._index.of(self._history.current)
        return await asyncio.to_thread(self._describe, tuple(seen.files.values()), seen.n_prompts)

    def _describe(self, files: Sequence[SeenFile], n_prompts: int) -> tuple[ContextFile, ...]:
        return tuple(
            ContextFile(
                uri=each.read.uri,
                hash=each.read.hash,
                source=each.read.source,
                read_at_node=each.node_id if each.in_view else None,
                tokens=each.tokens,
                stale=self._tracker.is_stale(Path(each.read.path)),
                in_window=each.in_view,
                buffer_version=each.read.version,
                turns_ago=n_prompts - each.n_prompts if each.in_view else None,
            )
            for each in files
        )

    def hold_reports(self) -> AbstractContextManager[None]:
        """Report no file as changed inside the block, in which the conversation and files move together."""
        return self._tracker.hold()

    def watch(self, globs: Sequence[str], notify: Callable[[Sequence[str]], None]) -> Dispose:
        """Call *notify* with files in the session's folders that may have changed, until disposed or closed.

        The names of the files match one of *globs*. A folder is reported with any name, because it stands for
        everything below it. Changes that arrive together are reported together, as URIs.
        """
        matchers = [glob_matcher(glob) for glob in globs]
        seen: dict[Path, None] = {}

        def on_change(path: Path) -> None:
            names = [path.relative_to(root).as_posix() for root in self._roots if path.is_relative_to(root)]
            is_wanted = any(matches(name) for name in names for matches in matchers)
            if is_wanted or (names and os.path.isdir(path)):
                if not seen:
                    asyncio.get_running_loop().call_soon(flush)
                seen[path] = None

        def flush() -> None:
            uris = tuple(map(path_to_uri, seen))
            seen.clear()
            if uris:
                notify(uris)

        stop = self._workspace.on_change(on_change)

        def dispose() -> None:
            stop()
            seen.clear()

        self._watches.append(dispose)
        return dispose

    def close(self) -> None:
        """Stop watching and tracking."""
        for dispose in self._watches:
            dispose()
        self._watches.clear()
        self._workspace.drop_tracker(self._sid)

    def _known_read(self, path: str) -> FileRead | None:
        """Return the newest read of *path*, pending ones included."""
        seen = self._index.of(self._history.current).files.get(path)
        newest = None if seen is None else seen.read
        for read in self._history.pending_reads:
            if read.path == path:
                newest = read if newest is None else merge_reads(newest, read)
        return newest

    def _track(self, path: str) -> None:
        read = self._known_read(path)
        if read is None:
            self._tracker.forget(Path(path))
        else:
            self._tracker.expect(Path(path), read.uri, read.hash)

    async def _fresh(self, path: str) -> FreshFile:
        try:
            view = await self._workspace.view(self._resolve(path))
        except FileAccessError as problem:
            return FreshFile(path, problem=problem.problem)
        return FreshFile(view.uri, view.text, as_read(view))


def shown_path(path: Path, folder: Path) -> str:
    """Return *path* as a model in *folder* would write it."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def shown_uri(uri: str, folder: Path) -> str:
    """Return the file *uri* as a user in *folder* would write it; *uri* itself when it names no file here.

    >>> shown_uri("file:///p/src/a.py", Path("/p")), shown_uri("untitled:1", Path("/p"))
    ('src/a.py', 'untitled:1')
    """
    path = uri_to_path(uri)
    return uri if path is None else shown_path(path, folder)


def as_read(
    view: FileView, *, call_id: str = "", first_line: int = 1, line_count: int | None = None
) -> FileRead:
    """Return the read that shows *view*, or a range of its lines."""
    return FileRead(
        path=str(view.path),
        uri=view.uri,
        hash=view.hash,
        source=view.source,
        call_id=call_id,
        version=view.version,
        ranges=merge_ranges([(first_line, line_count)]),
    )


def _tokens_of_read(entry: Entry, call_id: str) -> int:
    """Return the tokens of one tool result of *entry*, or of all of it for a restored file."""
    return sum(
        estimate_block_tokens(block)
        for block in entry.turn.blocks
        if not call_id or (isinstance(block, ToolResultBlock) and block.call_id == call_id)
    )


def existing_folders(paths: Sequence[str]) -> tuple[str, ...]:
    """Return *paths*, each as :func:`existing_folder`. Raises FolderNotFound, InvalidInput."""
    if len(paths) > _MAX_ROOTS:
        raise InvalidInput(f"{len(paths)} further folders, the limit is {_MAX_ROOTS}")
    return tuple(map(existing_folder, paths))


def existing_folder(path: str) -> str:
    """Return the folder *path* resolved. Raises FolderNotFound."""
    given = expand_home(path)
    if not given.is_absolute():
        raise FolderNotFound(path, "it is not absolute")
    if not os.path.exists(given):  # not Path.exists, which raises inside a folder that cannot be entered
        raise FolderNotFound(path, "there is no such folder, or it cannot be entered")
    if not os.path.isdir(given):
        raise FolderNotFound(path, "it is not a folder")
    return str(given.resolve())

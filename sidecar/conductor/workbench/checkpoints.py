"""The checkpoints of one session: files are kept before its tools change them, and can be taken back.

A content is on the disk before its record, and the record before the change. After a crash in between there
is a record of a change that was never made, and the hashes tell. Records are part of the session's file and
of its forks. A restore goes the way of every edit, through the editor where the file is open; it keeps the
present content first, so that it can be taken back as well.

A command may change files that it does not name. The files that the model has read are kept before it runs,
with the files that its line names, and compared after its end. A named file that is not there yet is
compared as well. A change by somebody else in that time counts as the command's, unless an editor has the
file open. A file that has not changed since the last command is not read again. The same holds for a tool of
a server. Background commands are not covered, for the user's changes while
they run must not count as theirs; the answers about changes name them. Neither are ephemeral sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.capabilities.contract import CheckpointPort, PlannedChange
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.records import FileRename, to_record
from sidecar.conductor.workbench.files import SessionFiles, shown_path, shown_uri
from sidecar.conductor.workbench.kept_changes import (
    FileCheckpoint,
    FileDiff,
    FileRestore,
    KeptChange,
    RestoreOutcome,
    find_changes,
    find_origin,
    list_checkpoints,
    unified_diff,
)
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.workspace.contract import FileAccessError, FileBytes, FileView
from sidecar.workspace.files import BOM, text_hash
from sidecar.workspace.kept_contents import KeptContents
from sidecar.workspace.paths import path_to_uri
from sidecar.workspace.workspace import Workspace

_MOST_WATCHED: Final = 100
_MOST_BYTES: Final = 20_000_000
"""Files that are kept before a command, and the bytes of them that are read for one."""


class WatchedFile(Value):
    """A file before a command: its stamp on disk, the hash of its text, its kept content and its mode."""

    stamp: tuple[int, ...]
    hash: str
    content: str
    mode: int | None


class CommandWatch:
    """Finds the files of one session that its commands change.

    Args:
        sid: the session.
        workspace: the files as they are now.
        contents: stores the contents.
        seen: returns the files to watch, the newest last.
    """

    def __init__(
        self,
        sid: str,
        workspace: Workspace,
        contents: KeptContents,
        seen: Callable[[], Sequence[Path]],
    ) -> None:
        self._sid = sid
        self._workspace = workspace
        self._contents = contents
        self._seen = seen
        self._newest: Mapping[Path, WatchedFile] = {}

    async def start(self, named: Sequence[Path] = ()) -> Mapping[Path, WatchedFile | None]:
        """Keep the files, as far as they are text, and return them, None for a missing one of *named*."""
        named = named[:_MOST_WATCHED]
        seen = [path for path in self._seen()[-_MOST_WATCHED:] if path not in named]
        self._newest = await asyncio.to_thread(self.look, [*seen, *named])
        missing = [path for path in named if path not in self._newest]
        gone = await asyncio.to_thread(lambda: [path for path in missing if not self._contents.stamp(path)])
        return {**self._newest, **dict.fromkeys(gone)}

    async def find_changed(
        self, before: Mapping[Path, WatchedFile | None]
    ) -> Sequence[tuple[Path, WatchedFile | None, FileView | None]]:
        """Return the files of *before* that have changed since, each with its present view, None for none."""
        stamps = await asyncio.to_thread(lambda: {path: self._contents.stamp(path) for path in before})
        found: list[tuple[Path, WatchedFile | None, FileView | None]] = []
        for path, file in before.items():
            if stamps[path] == (None if file is None else file.stamp):
                continue
            try:
                view = await self._workspace.view(path)
            except FileAccessError as error:
                if error.problem == "notFound" and file is not None:
                    found.append((path, file, None))
                continue
            if view.source == "disk" and (file is None or view.hash != file.hash):
                found.append((path, file, view))
        return found

    def look(self, paths: Sequence[Path]) -> Mapping[Path, WatchedFile]:
        """Keep the files *paths*, the newest last, and return them. Works on the disk."""
        found: dict[Path, WatchedFile] = {}
        n_left = _MOST_BYTES
        for path in reversed(paths):
            stamp, known = self._contents.stamp(path), self._newest.get(path)
            if known is not None and known.stamp == stamp:
                found[path] = known
                continue
            with suppress(FileAccessError, OSError):
                file = self._contents.look(path)
                n_left -= len(file.raw)
                if n_left < 0:
                    break
                if file.text is not None and stamp is not None:
                    name = self._contents.keep(self._sid, file.raw, waits=False)
                    found[path] = WatchedFile(stamp, text_hash(file.text), name, file.mode)
        return found


_MOST_FILES: Final = 200
"""Files that one diff compares."""


class RestoreStep(Value):
    """A file of a restore: its present view, and the change to take back; None for a file that stays.

    *old* is the text to compare it with, None for none.
    """

    path: Path
    uri: str
    view: FileView | None
    origin: KeptChange | None
    outcome: RestoreOutcome
    reason: str | None = None
    original: FileBytes | None = None
    old: str | None = None


class CallCheckpoints(Value):
    """The checkpoints of a session for the changes of one tool call; a ``CheckpointPort``.

    *outer* keeps the changes as well: the ones of the call that a sub-agent works for.
    """

    checkpoints: Checkpoints
    call_id: str
    outer: CheckpointPort | None = None

    async def keep(self, changes: Sequence[PlannedChange]) -> None:
        """Keep the files of *changes* as they are; on disk when this returns."""
        await self.checkpoints.keep(self.checkpoints.begin(self.call_id), changes)
        if self.outer is not None:
            await self.outer.keep(changes)

    async def watch_command(self, named: Sequence[Path] = ()) -> Callable[[], Awaitable[None]]:
        """Keep the files that the model has read or that are *named*; return the function to call after."""
        keep_changed = await self.checkpoints.watch_command(self.call_id, named)
        if self.outer is None:
            return keep_changed
        keep_changed_outside = await self.outer.watch_command(named)

        async def keep_both() -> None:
            await keep_changed()
            await keep_changed_outside()

        return keep_both

    def leave_uncovered(self, name: str) -> None:
        """Note that the changes of files by *name* are not kept."""
        self.checkpoints.uncovered = (*self.checkpoints.uncovered, name)
        if self.outer is not None:
            self.outer.leave_uncovered(name)

    async def correct(self, view: FileView) -> None:
        """Record that the newest change of a file has led to *view* and not to the planned text."""
        await self.checkpoints.correct(view)
        if self.outer is not None:
            await self.outer.correct(view)


class Checkpoints:
    """The checkpoints of one session, its *changes* by id; *uncovered* names others that changed files.

    *outer* keeps the changes of a sub-agent as well, while the call of its parent runs.
    """

    def __init__(self, record: SessionRecord, deps: SessionDeps, files: SessionFiles) -> None:
        """Make the checkpoints of a session.

        Args:
            record: the session, which stores the records; nothing outside its folders is taken back.
            deps: has the files as they are now, and stores their contents.
            files: the record of the files that the model has seen.
        """
        self._sid = record.sid
        self._roots = record.roots
        self._history = record.history
        self._events = record.events
        self._workspace = deps.workspace
        self._contents = contents = None if record.info.ephemeral else deps.contents
        self._new_id = deps.new_id
        self._clock_ms = deps.clock_ms
        self.changes: dict[str, KeptChange] = {}
        self._left_out: set[str] = set()
        self.uncovered: tuple[str, ...] = ()
        self.outer: CheckpointPort | None = None
        self._watch: CommandWatch | None = None
        if contents is not None:
            self._watch = CommandWatch(
                record.sid,
                deps.workspace,
                contents,
                lambda: [path for path in files.seen_paths if self._is_inside(path)],
            )

    @property
    def all(self) -> tuple[FileCheckpoint, ...]:
        """Every checkpoint, oldest first."""
        return list_checkpoints([*self.changes.values()], self._uri_before)

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Load the stored *records* of the session."""
        self.changes |= {change.change_id: change for change in find_changes(records)}

    async def adopt(self, changes: Sequence[KeptChange], sid: str) -> None:
        """Take over the *changes* of the session *sid*, of which this one is a fork."""
        self.changes |= {change.change_id: change for change in changes}
        if self.changes and self._contents is not None:
            await asyncio.to_thread(self._contents.fork, sid, self._sid)
            mine = (to_record("checkpoint", change) for change in self.changes.values())
            await self._history.append_records(*mine)

    def leave_out(self, call_id: str) -> None:
        """Keep nothing for a command of the user's own, which counts as work of others."""
        self._left_out.add(call_id)

    def of_call(self, call_id: str) -> CallCheckpoints:
        """Return the checkpoints for the changes of one tool call."""
        return CallCheckpoints(self, call_id, self.outer)

    async def watch_command(self, call_id: str, named: Sequence[Path] = ()) -> Callable[[], Awaitable[None]]:
        """Keep the files that the model has read or that are *named*; return the function to call after."""
        watch = None if call_id in self._left_out else self._watch
        before = {} if watch is None else await watch.start(named)

        async def keep_changed() -> None:
            for path, file, view in () if watch is None else await watch.find_changed(before):
                change = self.begin(call_id)(
                    change_id=self._new_id(),
                    path=str(path),
                    uri=path_to_uri(path),
                    before=None if file is None else file.hash,
                    after=None if view is None else view.hash,
                    content=None if file is None else file.content,
                    mode=None if file is None else file.mode,
                )
                await self._record(change)

        return keep_changed

    async def correct(self, view: FileView) -> None:
        """Record that the newest change of a file has led to *view* and not to the planned text."""
        path = str(view.path)
        newest = next((each for each in reversed(self.changes.values()) if each.path == path), None)
        if newest is not None:
            await self._record(replace(newest, after=view.hash))

    def rename(self, rename: FileRename) -> Sequence[KeptChange]:
        """Keep the changes of renamed files under their new paths, and return these changes."""
        paths = ((change, rename.path_now(change.path)) for change in self.changes.values())
        moved = [
            replace(change, path=path, uri=path_to_uri(Path(path)))
            for change, path in paths
            if path != change.path
        ]
        self.changes |= {change.change_id: change for change in moved}
        return moved

    def _uri_before(self, change: KeptChange) -> str | None:
        """Return the URI that the file of *change* had then, None where it is the one that it has now."""
        path = change.path
        for rename in reversed(self._history.renames):
            if change.at <= rename.at:
                path = rename.path_then(path)
        return None if path == change.path else path_to_uri(Path(path))

    def since(self, checkpoint_id: str | None, uris: Sequence[str] | None = None) -> frozenset[str]:
        """Return the ids of the changes since a checkpoint began, all for None; of *uris* or of all files.

        Raises InvalidInput for an unknown checkpoint, or a file that was not changed since.
        """
        changes = [*self.changes.values()]
        found = (at for at, each in enumerate(changes) if each.checkpoint_id == checkpoint_id)
        first = 0 if checkpoint_id is None else next(found, None)
        if first is None:
            hint = "/checkpoint lists them"
            raise InvalidInput(f"there is no checkpoint {checkpoint_id!r} in this session", hint=hint)
        found_uris = {each.uri for each in changes[first:]}
        for uri in uris or ():
            if uri not in found_uris:
                hint = "sidecar/checkpoint/diff names the files that were"
                raise InvalidInput(f"this session has not changed {uri!r} since", hint=hint)
        return frozenset(each.change_id for each in changes[first:] if uris is None or each.uri in uris)

    def first_of(self, wanted: Collection[str]) -> str:
        """Return the id of the checkpoint with the oldest of the changes *wanted*."""
        return next(each.checkpoint_id for each in self.changes.values() if each.change_id in wanted)

    def of_entries(self, entries: Sequence[Entry], kept: Collection[str], head: str | None) -> frozenset[str]:
        """Return the ids of the changes that *entries* made.

        A copy of an entry on another branch has another node, and goes by the ids of its tool calls.

        Args:
            entries: the entries behind *head*.
            kept: the nodes up to *head*.
            head: the node before the first of *entries*, None for the beginning.
        """
        known, nodes = self._history.graph.entries, set[str]()
        waiting, before, calls = [*entries], {*kept}, set[str]()
        while waiting:
            entry = waiting.pop()
            nodes.add(entry.node_id)
            calls |= {block.id for block in entry.turn.blocks if isinstance(block, ToolCallBlock)}
            folded = (node for node in entry.origin if node not in nodes and node not in before)
            waiting += [known[node] for node in folded if node in known]
        earlier = before - {head}
        return frozenset(
            each.change_id
            for each in tuple(self.changes.values())
            if each.head in nodes or (each.call_id in calls and each.head not in earlier)
        )

    async def restore(self, wanted: Collection[str]) -> tuple[FileRestore, ...]:
        """Take back the changes *wanted*, each file to its content before the first of them.

        A file that others have changed since stays, and so does one outside of the session's folders.
        """
        steps = await self._plan(wanted)
        checkpoint_id, at = self._next_id(), self._clock_ms()
        done = []
        for step in steps:
            if step.origin is None or self._contents is None:
                done.append(FileRestore(step.uri, step.outcome, step.reason))
                continue
            restoring = partial(KeptChange, checkpoint_id=checkpoint_id, at=at, cause="restore")
            text = None if step.original is None else step.original.text or ""
            await self.keep(restoring, [PlannedChange(step.path, step.view, text)])
            done.append(await self.take_back(step, text))
        return tuple(done)

    async def diff(self, wanted: Collection[str]) -> tuple[FileDiff, ...]:
        """Return the diffs of files, from their contents before the changes *wanted* to the present."""
        found = []
        for step in (await self._plan(wanted))[:_MOST_FILES]:
            new = "" if step.view is None else step.view.text
            if step.old is None:
                found.append(FileDiff(step.uri, step.outcome, "", reason=step.reason))
                continue
            name = shown_path(step.path, self._roots[0])
            first = next(each for each in self.changes.values() if each.path == str(step.path))
            before = shown_uri(self._uri_before(first) or step.uri, self._roots[0])
            diff, is_cut = await asyncio.to_thread(unified_diff, step.old, new, name, before)
            found.append(FileDiff(step.uri, step.outcome, diff, is_cut, step.reason))
        return tuple(found)

    def begin(self, call_id: str) -> Callable[..., KeptChange]:
        """Return :class:`KeptChange` with the members that all changes by a tool call of this turn share."""
        newest = next(reversed(self.changes.values()), None)
        turn_id = self._events.turn_id
        is_same = newest is not None and newest.cause == "turn" and newest.turn_id == turn_id
        return partial(
            KeptChange,
            checkpoint_id=newest.checkpoint_id if newest is not None and is_same else self._next_id(),
            at=self._clock_ms(),
            cause="turn",
            turn_id=turn_id,
            head=self._history.head,
            call_id=call_id,
        )

    def _is_inside(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def _next_id(self) -> str:
        return f"c{len({each.checkpoint_id for each in self.changes.values()}) + 1}"

    async def keep(self, begun: Callable[..., KeptChange], changes: Sequence[PlannedChange]) -> None:
        """Keep the contents before *changes*, and then store their records, each made by *begun*."""
        if self._contents is None:
            return
        for change in changes:
            planned = begun(
                change_id=self._new_id(),
                path=str(change.path),
                uri=path_to_uri(change.path) if change.before is None else change.before.uri,
                before=None if change.before is None else change.before.hash,
                after=None if change.text is None else text_hash(change.text.removeprefix(BOM)),
            )
            if change.before is not None:
                planned = await asyncio.to_thread(self.keep_content, planned, change.before)
            await self._record(planned)

    def keep_content(self, planned: KeptChange, view: FileView) -> KeptChange:
        """Keep the content *view* and return *planned* with it, or with the problem. Works on the disk."""
        assert self._contents is not None
        mode: int | None = None
        try:
            if view.unsaved:
                raw = view.text.encode("utf-8", "surrogatepass")
            else:
                found = self._contents.look(view.path)
                raw, mode = found.raw, found.mode
            return replace(
                planned, content=self._contents.keep(self._sid, raw), is_text=view.unsaved, mode=mode
            )
        except FileAccessError as error:
            return replace(planned, problem=error.message)
        except OSError as error:
            return replace(planned, problem=f"it could not be kept: {error.strerror}")

    async def _record(self, change: KeptChange) -> None:
        self.changes[change.change_id] = change
        await self._history.append_records(to_record("checkpoint", change))

    async def _plan(self, wanted: Collection[str]) -> list[RestoreStep]:
        by_path: dict[str, list[KeptChange]] = {}
        for change in self.changes.values():
            by_path.setdefault(change.path, []).append(change)
        chosen = {self.changes[each].path for each in wanted}
        return [await self.plan_file(by_path[path], wanted) for path in by_path if path in chosen]

    async def plan_file(self, changes: Sequence[KeptChange], wanted: Collection[str]) -> RestoreStep:
        """Return the step for one file with its *changes*, oldest first."""
        path, uri = Path(changes[0].path), changes[0].uri
        view: FileView | None = None
        if not self._is_inside(path):
            return RestoreStep(path, uri, None, None, "outside", "it is outside of the session's folders")
        try:
            view = await self._workspace.view(path)
            if view.path != path:
                return RestoreStep(path, uri, None, None, "changedSince", "its path has become a link")
        except FileAccessError as error:
            if error.problem != "notFound":
                return RestoreStep(path, uri, None, None, "changedSince", error.message)
        origin, is_whole = find_origin(changes, wanted, None if view is None else view.hash)
        # Of a file with changes by others the whole difference is shown, though none of it is taken back.
        first = origin if is_whole else next(each for each in changes if each.change_id in wanted)
        if first is None or first.before == (None if view is None else view.hash):
            return RestoreStep(path, uri, view, None, "unchanged")
        original: FileBytes | None = None
        if self._contents is not None and first.content is not None:
            original = await asyncio.to_thread(
                self._contents.read, self._sid, first.content, mode=first.mode, is_text=first.is_text
            )
        old = "" if first.before is None else None if original is None else original.text
        if not is_whole:
            return RestoreStep(path, uri, view, None, "changedSince", "others have changed it since", old=old)
        if first.before is None:
            return RestoreStep(path, uri, view, first, "removed", old=old)
        if original is None:
            reason = first.problem or "the kept content has gone"
            return RestoreStep(path, uri, view, None, "notKept", reason)
        return RestoreStep(path, uri, view, first, "restored", original=original, old=old)

    async def take_back(self, step: RestoreStep, text: str | None) -> FileRestore:
        """Make *text* the content of a file, or delete it for None; its present content was kept."""
        now = None if step.view is None else step.view.hash
        try:
            if text is None:
                assert now is not None
                await self._workspace.delete(step.path, expected_hash=now)
                return FileRestore(step.uri, "removed")
            assert step.origin is not None
            original = None if step.origin.is_text else step.original
            view = await self._workspace.write(step.path, text, expected_hash=now, original=original)
            if view.hash != step.origin.before:
                await self.correct(view)
            return FileRestore(step.uri, "restored")
        except FileAccessError as error:
            return FileRestore(step.uri, "changedSince", error.message)

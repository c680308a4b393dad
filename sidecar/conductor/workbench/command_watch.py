"""The files that a command changes, as far as the model has read them or the command line names them.

A command may change files that it does not name. The files that the model has read are kept before it runs,
with the files that its line names, and compared after its end. A named file that is not there yet is
compared as well. A change by somebody else in that time counts as the command's, unless an editor has the
file open. A file that has not changed since the last command is not read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar._internal.values import Value
from sidecar.workspace.contract import ContentsPort, FileAccessError, FileView, WorkspacePort
from sidecar.workspace.files import text_hash

_MOST_FILES: Final = 100
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
        workspace: WorkspacePort,
        contents: ContentsPort,
        seen: Callable[[], Sequence[Path]],
    ) -> None:
        self._sid = sid
        self._workspace = workspace
        self._contents = contents
        self._seen = seen
        self._newest: Mapping[Path, WatchedFile] = {}

    async def start(self, named: Sequence[Path] = ()) -> Mapping[Path, WatchedFile | None]:
        """Keep the files, as far as they are text, and return them, None for a missing one of *named*."""
        named = named[:_MOST_FILES]
        seen = [path for path in self._seen()[-_MOST_FILES:] if path not in named]
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

"""One folder of the workspace as a knowledge source: listed by its ignore rules, read as it is now, followed.

An unsaved buffer is read before its file. It writes nothing to the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from sidecar.rooms.knowledge.workspace import IndexProgress, WorkspaceSource
from sidecar.workspace.coalesce import Coalescer
from sidecar.workspace.contract import FileProblem, WorkspacePort
from sidecar.workspace.ignore import IGNORE_FILES, IgnoreRules, walk
from sidecar.workspace.project_files import read_project_text

__all__ = ["FolderSource"]

MAX_ENTRIES: Final = 100_000
READ_LIMIT_BYTES: Final = 2_000_000
SETTLE_S: Final = 0.5
"""How long the changes of one file are gathered: a buffer changes with every key."""


class FolderSource:
    """The folder *root*, a resolved path, indexed at *database*. Made and used on the event loop.

    *progress* is told after each batch, *trouble* of what kept files from being indexed; neither may raise.

    Attributes:
        source: what can be searched.
    """

    def __init__(
        self,
        workspace: WorkspacePort,
        root: Path,
        database: Path | None,
        *,
        progress: Callable[[IndexProgress], None],
        trouble: Callable[[Exception], None],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._workspace = workspace
        self._root = root
        self._rules = IgnoreRules(root)
        self._buffers: dict[Path, str] = {}
        self.source = WorkspaceSource(
            self._list, self._read, root=root, database=database, on_progress=progress, on_error=trouble
        )
        self._changes = Coalescer(self._look_at, delay_s=settle_s)
        self._ends = (workspace.watch(root), workspace.on_change(self._heard))

    async def start(self) -> None:
        """Begin to index what is there now; it goes on in the background."""
        for view in await self._workspace.open_views():
            self._buffers[view.path] = view.text
        self.source.refresh()

    async def settled(self) -> None:
        """Return when every change told so far is indexed."""
        await self._changes.drain()
        await self.source.settled()

    async def close(self) -> None:
        """Stop following and close the index, which stays on disk."""
        for end in self._ends:
            end()
        await self._changes.close()
        await self.source.close()

    def _heard(self, path: Path) -> None:
        if path.is_relative_to(self._root) or self._root.is_relative_to(path):
            self._changes.schedule(path)

    async def _look_at(self, path: Path) -> None:
        """Have the index look at *path* again: the file, the folder, or what is left of either."""
        self._buffers.pop(path, None)
        if path.name in IGNORE_FILES:
            self._rules = IgnoreRules(self._root)
            self.source.refresh()
        try:
            view = await self._workspace.view_project_file(path, (self._root,), limit_bytes=READ_LIMIT_BYTES)
        except FileProblem as problem:
            self._note_problem(path, problem.problem)
            return
        if view.source == "buffer":
            self._buffers[view.path] = view.text
        self.source.changed(view.path)

    def _note_problem(self, path: Path, problem: str) -> None:
        if problem == "isDirectory":
            self.source.refresh()
        elif problem in ("notFound", "outsideRoots"):
            self.source.deleted(path)
        else:
            self.source.changed(path)

    def _list(self) -> Iterable[Path]:
        """List the files, in a worker thread."""
        found = walk(self._root, self._root, cap=MAX_ENTRIES)
        return [Path(entry.path) for entry in found if entry.is_file(follow_symlinks=False)]

    def _read(self, path: Path) -> str | None:
        """Return the text of *path*, in the index's thread; None for what is gone, left out or no text."""
        if self._rules.is_ignored(path):
            return None
        text = self._buffers.get(path)
        if text is not None:
            return text
        try:
            return read_project_text(path, (self._root,), READ_LIMIT_BYTES).text
        except FileProblem:
            return None

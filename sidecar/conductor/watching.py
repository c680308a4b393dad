"""Tells which of the files somebody asked for may have changed, in an editor or on disk.

Starts no watcher of its own: the session's folders are watched as long as it is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar.workspace.contract import Dispose, WorkspacePort
from sidecar.workspace.globs import glob_matcher
from sidecar.workspace.paths import path_to_uri

__all__ = ["watch_files"]


def watch_files(
    workspace: WorkspacePort,
    roots: Sequence[Path],
    globs: Sequence[str],
    tell: Callable[[Sequence[str]], None],
) -> Dispose:
    """Tell *tell* of files below *roots* that may have changed and match one of *globs*, until disposed.

    A folder is told whatever its name, for it stands for everything below it. What is seen at once is told
    at once, as URIs.
    """
    matchers = [glob_matcher(glob) for glob in globs]
    seen: dict[Path, None] = {}

    def hear(path: Path) -> None:
        names = [path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)]
        is_wanted = any(matches(name) for name in names for matches in matchers)
        if is_wanted or (names and path.is_dir()):
            if not seen:
                asyncio.get_running_loop().call_soon(flush)
            seen[path] = None

    def flush() -> None:
        uris = tuple(map(path_to_uri, seen))
        seen.clear()
        if uris:
            tell(uris)

    stop = workspace.on_change(hear)

    def dispose() -> None:
        stop()
        seen.clear()

    return dispose

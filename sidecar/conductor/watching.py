"""Reports changes of the files that a client watches, in an editor or on disk.

It starts no watcher of its own: the session's folders are watched as long as it is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar.workspace.contract import Dispose, WorkspacePort
from sidecar.workspace.globs import glob_matcher
from sidecar.workspace.paths import path_to_uri


def watch_files(
    workspace: WorkspacePort,
    roots: Sequence[Path],
    globs: Sequence[str],
    report: Callable[[Sequence[str]], None],
) -> Dispose:
    """Report files below *roots* that may have changed and match one of *globs*, until disposed.

    A folder is reported with any name, because it stands for everything below it. Changes that arrive
    together are reported together, as URIs.
    """
    matchers = [glob_matcher(glob) for glob in globs]
    seen: dict[Path, None] = {}

    def on_change(path: Path) -> None:
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
            report(uris)

    stop = workspace.on_change(on_change)

    def dispose() -> None:
        stop()
        seen.clear()

    return dispose

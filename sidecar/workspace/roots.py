"""Where a path that a model wrote really leads, and whether that lies inside the session's trees.

Follows links before it judges, so that a link inside a tree that leads out of it counts as outside. Touches
the disk only to follow links; reads and writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sidecar.workspace.contract import FileProblem
from sidecar.workspace.files import real_path
from sidecar.workspace.uris import uri_to_path

__all__ = ["ResolvedPath", "is_inside", "resolve_path"]


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path with all links followed, as far as it exists; *inside* says whether a root holds it."""

    path: Path
    inside: bool


def resolve_path(spelled: str, cwd: Path, roots: Iterable[Path]) -> ResolvedPath:
    """Return where *spelled* leads: relative to *cwd*, from ``~``, absolute, or a ``file:`` URI.

    A path that does not exist yet is resolved through the folder it would be in. *roots* are resolved
    paths. Raises FileProblem ``notFound`` for what can name no file.
    """
    path = real_path(cwd / _plain_path(spelled))
    return ResolvedPath(path, is_inside(path, roots))


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """Whether the resolved *path* is one of *roots* or below one.

    >>> is_inside(Path("/a/bc"), [Path("/a/b")]), is_inside(Path("/a/b/c"), [Path("/a/b")])
    (False, True)
    """
    return any(path.is_relative_to(root) for root in roots)


def _plain_path(spelled: str) -> Path:
    if not spelled or "\0" in spelled:
        raise FileProblem("notFound", f"{spelled!r} is no path", hint="give the path of a file or folder")
    if spelled.lower().startswith("file:"):
        path = uri_to_path(spelled)
        if path is None:
            raise FileProblem(
                "notFound", f"{spelled!r} names no file of this machine", hint="give a plain path"
            )
        return path
    return Path(os.path.expanduser(spelled))

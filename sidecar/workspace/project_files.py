"""Reads the files of a project that nobody asked for: its rules, its settings, its index.

Whoever wrote the project chose these files, and the daemon opens them before the user has decided to trust
it. So a file counts only when it lies inside the project after all links are followed, is a regular file and
has a bounded size. What is opened is checked again, for the name may stand for something else by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sidecar.workspace.contract import FileProblem
from sidecar.workspace.files import DiskText, read_text, real_path
from sidecar.workspace.roots import is_inside


def resolve_project_file(path: Path, roots: Iterable[Path]) -> Path:
    """Return *path* with all links followed.

    Raises FileProblem ``outsideRoots`` when that lies in none of *roots*.
    """
    real = real_path(path)
    if not is_inside(real, map(real_path, roots)):
        raise FileProblem(
            "outsideRoots",
            f"cannot read {path}: it is a link that leads out of the project",
            hint="replace the link by a file",
        )
    return real


def read_project_text(path: Path, roots: Iterable[Path], limit_bytes: int) -> DiskText:
    """Return the text of *path*, a file of the project in *roots* that nobody asked for.

    Never blocks on a pipe or a device and never reads more than *limit_bytes*.

    Args:
        path: an absolute path.
        roots: the folders of the project.
        limit_bytes: the size up to which the file is read.

    Raises:
        FileProblem: ``notFound``, ``outsideRoots``, or why it is no readable text of that size.
    """
    return read_text(resolve_project_file(path, roots), limit_bytes, follow_links=False)

"""Paths and file URIs: how editors spell them, where links lead, and whether that lies inside a project.

Links are followed before anything is judged, so that a link inside a tree that leads out of it counts as
outside. The disk is touched to follow links, and to read the files of a project that nobody asked for: its
rules, its settings, its index. The author of the project chose those, and the daemon opens them before the
user has decided to trust it. So such a file counts only when it lies inside the project after all links are
followed, is a regular file and has a bounded size. The opened file is checked again, for by then the name may
stand for another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from sidecar._internal.env import expand_home
from sidecar._internal.values import Value
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import DiskText, read_text, real_path

_DRIVE = re.compile(r"/[A-Za-z]:")


class ResolvedPath(Value):
    """A path with all links followed, as far as it exists; *inside* says whether a root holds it."""

    path: Path
    inside: bool


def path_to_uri(path: Path) -> str:
    """Return the ``file:`` URI of an absolute *path*.

    >>> path_to_uri(Path("/tmp/a b.py"))
    'file:///tmp/a%20b.py'
    """
    return path.as_uri()


def uri_to_path(uri: str) -> Path | None:
    """Return the path *uri* names, or None when it names no file of this machine."""
    spelled = decode_file_uri(uri, windows=os.name == "nt")
    return None if spelled is None else Path(spelled)


def decode_file_uri(uri: str, *, windows: bool) -> str | None:
    """Return the path in *uri* in the spelling of the platform, or None for anything but a usable file URI.

    >>> decode_file_uri("file:///c%3A/x/y.py", windows=True)
    'c:/x/y.py'
    >>> decode_file_uri("untitled:Untitled-1", windows=False) is None
    True
    """
    try:
        parts = urlsplit(uri)
    except ValueError:  # such as an unclosed bracket in the host
        return None
    if parts.scheme.lower() != "file":
        return None
    # A half of a surrogate pair is spelled as the same bytes are when they come percent-encoded.
    path = os.fsdecode(unquote_to_bytes(parts.path.encode("utf-8", "surrogatepass")))
    host = "" if parts.netloc.lower() == "localhost" else parts.netloc
    if "\0" in path or not path.startswith("/") or (host and not windows):
        return None
    if host:
        return f"//{host}{path}"
    return path[1:] if windows and _DRIVE.match(path) else path


_AROUND: Final = "@\"'` \t\r\n"


def resolve_path(spelled: str, cwd: Path, roots: Iterable[Path]) -> ResolvedPath:
    """Resolve a path as a model spells it: relative to *cwd*, from ``~``, absolute, or a ``file:`` URI.

    A path that does not exist yet is resolved through the folder it would be in. The at sign of a mention,
    quotes and line breaks around a path, and the separators of Windows, are not part of it where only the
    path without them is there.

    Args:
        spelled: the path, in any of these spellings.
        cwd: the folder that relative paths begin at.
        roots: resolved folders; the result says whether one of them holds the path.

    Raises:
        FileAccessError: ``notFound`` for a text that can name no file.
    """
    try:
        is_name = bool(spelled) and b"\0" not in os.fsencode(spelled)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        hint = "give the path of a file or folder"
        raise FileAccessError("notFound", f"{spelled!r} is not a path", hint=hint)
    path: Path | None = expand_home(spelled)
    if spelled.lower().startswith("file:"):
        path = uri_to_path(spelled)
    if path is None:
        message = f"{spelled!r} does not name a file of this machine"
        raise FileAccessError("notFound", message, hint="give a plain path")
    real = real_path(cwd / path)
    if not os.path.lexists(real):
        for meant in (spelled.strip(_AROUND), spelled.replace("\\", "/")):
            if meant and os.path.exists(cwd / meant):
                real = real_path(cwd / meant)
                break
    return ResolvedPath(real, is_inside(real, roots))


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """Whether the resolved *path* is one of *roots* or below one.

    >>> is_inside(Path("/a/bc"), [Path("/a/b")]), is_inside(Path("/a/b/c"), [Path("/a/b")])
    (False, True)
    """
    return any(path.is_relative_to(root) for root in roots)


def resolve_project_file(path: Path, roots: Iterable[Path]) -> Path:
    """Return *path* with all links followed.

    Raises FileAccessError ``outsideRoots`` when that lies in none of *roots*.
    """
    real = real_path(path)
    if not is_inside(real, map(real_path, roots)):
        message = f"cannot read {path}: it is a link that leads out of the project"
        raise FileAccessError("outsideRoots", message, hint="replace the link by a file")
    return real


def read_project_text(path: Path, roots: Iterable[Path], limit_bytes: int) -> DiskText:
    """Return the text of *path*, a file of a project that nobody asked for.

    Never blocks on a pipe or a device and never reads more than *limit_bytes*.

    Args:
        path: an absolute path.
        roots: the folders of the project.
        limit_bytes: the size up to which the file is read.

    Raises:
        FileAccessError: ``notFound``, ``outsideRoots``, or the reason why it is not readable text of that
            size.
    """
    return read_text(resolve_project_file(path, roots), limit_bytes, follow_links=False)

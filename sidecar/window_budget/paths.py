"""Which spellings of a path mean one file, decided from the text alone.

Never asks a file system; a caller that can resolve links and case says so with its own function.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["path_argument", "path_key"]

_PATH_ARGUMENTS = ("path", "file_path", "filePath", "file")
_DRIVE = re.compile(r"^/?([A-Za-z]):(?=/|$)")


def path_key(path: str) -> str:
    """Return one spelling for all lexical spellings of *path*.

    >>> {path_key(p) for p in ("./src/a.py", "src//a.py", "src/x/../a.py", "file://src/a.py")}
    {'src/a.py'}
    >>> path_key("C:\\\\src\\\\a.py"), path_key("c:/src/./a.py")
    ('c:/src/a.py', 'c:/src/a.py')
    """
    text = path.strip().removeprefix("file://").replace("\\", "/")
    text = _DRIVE.sub(lambda found: f"{found.group(1).lower()}:", text)
    normal = posixpath.normpath(text)
    return "/" + normal.lstrip("/") if normal.startswith("/") else normal


def path_argument(arguments: Any) -> str | None:
    """Return the path among a tool call's arguments, or None when it names none."""
    if not isinstance(arguments, Mapping):
        return None
    found = (arguments.get(name) for name in _PATH_ARGUMENTS)
    return next((value for value in found if isinstance(value, str) and value.strip()), None)

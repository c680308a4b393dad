"""File URIs to paths and back, as editors spell them on POSIX and on Windows.

Touches no disk; a URI of another scheme has no path here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

__all__ = ["decode_file_uri", "path_to_uri", "uri_to_path"]

_DRIVE = re.compile(r"/[A-Za-z]:")


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
    path = os.fsdecode(unquote_to_bytes(parts.path))
    host = "" if parts.netloc.lower() == "localhost" else parts.netloc
    if "\0" in path or not path.startswith("/") or (host and not windows):
        return None
    if host:
        return f"//{host}{path}"
    return path[1:] if windows and _DRIVE.match(path) else path

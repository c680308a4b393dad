"""Actions that need permission, as tools ask for them. Values only."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from sidecar._internal.values import Value


class CommandAccess(Value):
    """To run the command *line* in the resolved folder *cwd*; *is_posix*: a POSIX shell reads it."""

    line: str
    cwd: Path
    is_posix: bool = True


class ReadAccess(Value):
    """To read the resolved *path*, which lies outside the session's folders."""

    path: Path


class EditAccess(Value):
    """To change the resolved *path*; *is_inside* says whether the session's folders hold it."""

    path: Path
    is_inside: bool


class PatchAccess(Value):
    """To make several changes of files at once."""

    edits: tuple[EditAccess, ...]


class FetchAccess(Value):
    """To fetch pages from *host*, in small letters and with its port where that is an unusual one."""

    host: str


class ServerToolAccess(Value):
    """To call a tool of a server, which declares whether it only reads."""

    server: str
    tool: str
    is_read_only: bool


class ProjectTextAccess(Value):
    """To send the text of *path*, which came with the folder, to the model as if the user had typed it."""

    path: Path


Access: TypeAlias = (
    CommandAccess | ReadAccess | EditAccess | PatchAccess | FetchAccess | ServerToolAccess | ProjectTextAccess
)
"""An action that needs permission."""

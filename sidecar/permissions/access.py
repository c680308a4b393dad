"""Actions that need permission, as tools ask for them. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class CommandAccess:
    """To run the command *line* in the resolved folder *cwd*; *is_posix*: a POSIX shell reads it."""

    line: str
    cwd: Path
    is_posix: bool = True


@dataclass(frozen=True, slots=True)
class ReadAccess:
    """To read the resolved *path*, which lies outside the session's folders."""

    path: Path


@dataclass(frozen=True, slots=True)
class EditAccess:
    """To change the resolved *path*; *is_inside* says whether the session's folders hold it."""

    path: Path
    is_inside: bool


@dataclass(frozen=True, slots=True)
class PatchAccess:
    """To make several changes of files at once."""

    edits: tuple[EditAccess, ...]


@dataclass(frozen=True, slots=True)
class FetchAccess:
    """To fetch pages from *host*, in small letters and with its port where that is an unusual one."""

    host: str


@dataclass(frozen=True, slots=True)
class ServerToolAccess:
    """To call a tool of a server, which declares whether it only reads."""

    server: str
    tool: str
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class ProjectTextAccess:
    """To send the text of *path*, which came with the folder, to the model as if the user had typed it."""

    path: Path


Access: TypeAlias = (
    CommandAccess | ReadAccess | EditAccess | PatchAccess | FetchAccess | ServerToolAccess | ProjectTextAccess
)
"""An action that needs permission."""

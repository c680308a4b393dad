"""Programs: the file that the shell will run for a name, and whether it is the one that the name stands for.

The problem: the search path decides which file ``ls`` is. Virtual environments and package managers put
folders of the project there, in which an edit makes a program.

The rule: a program that lies inside the session's folders, also behind a link, is not the known one. Commands
that the shell has built in are not searched for. The folders of the path that lie inside are protected, so
that an earlier part of a line cannot put a program there; where the path has the working folder itself, which
cannot be protected, nothing behind it is known. Looks at the environment and the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sidecar._internal.env import expand_home, read_raw
from sidecar.workspace.files import real_path
from sidecar.workspace.paths import is_inside

_BUILTINS: Final = frozenset(
    (":", "[", "cd", "command", "echo", "exit", "false", "printf", "pwd", "set", "test", "true", "type")
)
"""The known commands that every POSIX shell has built in."""

_RUN_BY: Final = {"egrep": "grep", "fgrep": "grep"}
"""Programs that are scripts, and the program that they run."""

SYSTEM_FOLDERS: Final = tuple(
    map(
        Path,
        ("/bin", "/boot", "/etc", "/lib", "/lib64", "/opt/homebrew", "/sbin", "/usr", "/System", "/Library"),
    )
)
"""Folders of the system; a program in one is the known one, also where a session works in ``/``."""

_SUFFIXES: Final = (".exe", "") if os.name == "nt" else ("",)


def find_program_inside(name: str, folders: Iterable[Path], roots: tuple[Path, ...]) -> Path | None:
    """Return the program inside *roots* that the shell may run for *name*, None when it is the known one.

    A function of the environment counts as inside the working folder.

    Args:
        name: a plain name, without a folder.
        folders: the folders in which the line may have arrived.
        roots: the resolved folders of the session.
    """
    places = tuple(folders)
    if read_raw(f"BASH_FUNC_{name}%%") is not None:
        return places[0] / name
    if name in _BUILTINS:
        return None
    found = (find_in_place(place, name, roots) for place in places)
    inside = next((each for each in found if each is not None), None)
    runs = _RUN_BY.get(name)
    return inside if inside is not None or runs is None else find_program_inside(runs, places, roots)


def is_shell_inside(cwd: Path, roots: tuple[Path, ...]) -> bool:
    """Whether the shell of a line in *cwd*, or the file that it reads first, lies in *roots*."""
    first = read_raw("BASH_ENV")
    reads_inside = first is not None and is_inside(real_path(cwd / os.path.expandvars(first)), roots)
    return reads_inside or find_program_inside("bash", (cwd,), roots) is not None


def find_in_place(place: Path, name: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the program inside *roots* that a shell in the folder *place* runs for *name*, None for none."""
    for entry in _search_path():
        folder = place / entry
        if not entry.parts:
            return folder / name
        for suffix in _SUFFIXES:
            program = folder / f"{name}{suffix}"
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program if lies_inside(program, roots) else None
    return None


def lies_inside(program: Path, roots: tuple[Path, ...]) -> bool:
    """Whether *program*, or the target of that link, lies in *roots* and is no part of the system."""
    return any(
        is_inside(each, roots) and not is_part_of_system(each, roots)
        for each in (program, real_path(program))
    )


def is_part_of_system(path: Path, roots: tuple[Path, ...]) -> bool:
    """Whether *path* lies in a folder of the system that one of *roots* holds, as ``/`` does."""
    return any(
        path.is_relative_to(system) and root in system.parents for system in SYSTEM_FOLDERS for root in roots
    )


def is_on_path(path: Path, roots: tuple[Path, ...]) -> bool:
    """Whether the resolved *path* is a folder of the search path, lies in one, or holds one inside."""
    for entry in _search_path():
        if entry.is_absolute():
            folder = real_path(entry)
            is_part = path.is_relative_to(folder) or (folder.is_relative_to(path) and path not in roots)
            if is_part and is_inside(folder, roots):
                return True
        elif entry.parts and leads_through(path.parts, entry.parts):
            return True
    return False


def leads_through(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether *parts* lead through *wanted*, or end on the way there."""
    lengths = range(len(parts))
    return any(parts[at : at + len(wanted)] == wanted[: len(parts) - at] for at in lengths)


def _search_path() -> tuple[Path, ...]:
    """Return the folders in which the shell looks for programs; the working folder is the empty path."""
    given = read_raw("PATH")
    entries = [] if given is None else given.split(os.pathsep)
    return tuple(expand_home(entry) for entry in entries)

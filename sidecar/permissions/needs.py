"""Needs of an action: the files, commands, tools and hosts for which it asks permission, one for each.

Looks at the disk for nothing but the user's home folder.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from sidecar._internal.values import Value
from sidecar.permissions.protected import KEYS_OF_USER, SessionFolders, is_hidden, why_protected

EDITS: Final = "edit"
EDITS_LABEL: Final = "changes to files in the session's folders"
"""The key of changes to files inside the session's folders, and the words for it."""


class Need(Value, kw_only=True):
    """One thing that an action needs permission for.

    Attributes:
        text: the thing, as the user reads it.
        why: the reason for *key* and *is_free*, as a part of a sentence.
        key: the scope of an answer "always"; None when there is none.
        label: the words for *key*.
        is_free: whether no question is needed.
        words: the words of a command, for the user's rules; None for other things and for computed words.
        scope: the words of the known command that *key* stands for; None when it is none.
        path: the file to change, for the user's rules.
        is_hidden: whether only a rule that names something hidden reaches it.
        tool: the server and the tool to call, for the user's rules.
        host: the host to fetch from, for the user's rules.
    """

    text: str
    why: str
    key: str | None = None
    label: str = ""
    is_free: bool = False
    words: tuple[str, ...] | None = None
    scope: tuple[str, ...] | None = None
    path: Path | None = None
    is_hidden: bool = False
    tool: tuple[str, str] | None = None
    host: str | None = None


def need_of_reading(path: Path, is_folder: bool) -> Need:
    """Return the need of reading *path* outside the roots; "always" covers its folder, or all below a folder.

    The home folder, the folders above it and the user's keys ask each time.
    """
    need = Need(text=f"reading {path}", why="it lies outside the session's folders")
    folder = path if is_folder else path.parent
    if why_protected(path, SessionFolders(())) == KEYS_OF_USER or Path(
        os.path.expanduser("~")
    ).is_relative_to(folder):
        return need
    key, below = (f"tree:{folder}", " and below") if is_folder else (f"read:{folder}", "")
    return replace(need, key=key, label=f"reading in `{folder}`{below}")


def need_of_edit(path: Path, place: SessionFolders, *, is_inside: bool) -> Need:
    """Return the need of changing the resolved *path*; outside of the roots "always" covers its folder."""
    need = Need(text=f"changing {path}", why="it changes a file", path=path)
    reason = why_protected(path, place)
    if reason is not None:
        return replace(need, why=f"{path.name} is protected as {reason}")
    if is_inside and is_hidden(path, place):
        why = f"{path.name} is hidden, and programs obey such files"
        return replace(need, why=why, key=f"edit:{path}", label=f"changes to `{path}`", is_hidden=True)
    if is_inside:
        return replace(need, key=EDITS, label=EDITS_LABEL)
    folder = path.parent
    if Path(os.path.expanduser("~")).is_relative_to(folder):
        return need
    return replace(need, key=f"edit:{folder}", label=f"changes to files in `{folder}`")

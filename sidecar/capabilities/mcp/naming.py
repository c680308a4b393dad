"""Names that every provider takes, and that stay unique: ``mcp__server__tool``. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

__all__ = ["NAME_CAP", "server_slugs", "tool_names"]

NAME_CAP: Final = 64
"""Characters of a tool's name that every provider takes."""

_SLUG_CAP: Final = 24
_MARK_CHARS: Final = 6
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES: Final = re.compile(r"_{2,}")


def server_slugs(names: Iterable[str]) -> tuple[str, ...]:
    """Return a short name for each server: all different, and none with two underscores in a row.

    >>> server_slugs(["git hub", "git.hub", "文"])
    ('git_hub', 'git_hub_2', 'server')
    """
    slugs: dict[str, None] = {}
    for name in names:
        wanted = slug = _slug(name)
        number = 1
        while slug in slugs:
            number += 1
            slug = f"{wanted}_{number}"
        slugs[slug] = None
    return tuple(slugs)


def tool_names(slug: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return what a model calls each tool of a server: all different, at most :data:`NAME_CAP` long.

    A name that had to be cut, or that clashes with an earlier one, bears a mark of its own.

    >>> tool_names("fs", ["read", "a.b", "a/b"])
    ('mcp__fs__read', 'mcp__fs__a_b', 'mcp__fs__a_b_c14cdd')
    """
    prefix = f"mcp__{slug}__"
    taken: dict[str, None] = {}
    for name in names:
        wanted = full = prefix + _STRANGE.sub("_", name)
        salt = name
        while len(full) > NAME_CAP or full in taken or full == prefix:
            full = f"{wanted[: NAME_CAP - _MARK_CHARS - 1]}_{_mark(salt)}"
            salt += "'"
        taken[full] = None
    return tuple(taken)


def _slug(name: str) -> str:
    clean = _UNDERSCORES.sub("_", _STRANGE.sub("_", name)).strip("_")
    return clean[:_SLUG_CAP].rstrip("_") or "server"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_MARK_CHARS]

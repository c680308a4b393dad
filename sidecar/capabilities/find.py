"""The find tool: files and folders by name. Opens none."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.access import readable_path, root_above
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.effects import SEARCHES
from sidecar.capabilities.tree import list_paths, select
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.workspace.globs import glob_matcher

__all__ = ["FIND", "FindArguments"]


class FindArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the find tool takes."""

    name: Annotated[
        str,
        msgspec.Meta(
            min_length=1, description="A part of the name, in any case, or a glob such as test_*.py."
        ),
    ]
    path: Annotated[str, msgspec.Meta(description="The folder to look in.")] = "."
    newest_first: Annotated[bool, msgspec.Meta(description="Order by time of change, not by path.")] = False
    max_results: Annotated[int, msgspec.Meta(ge=1, le=5000, description="Paths to show.")] = 200


async def _find(arguments: FindArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    start = await readable_path(context, arguments.path, "find")

    def search() -> ToolReply:
        root = root_above(start, context)
        found = select(start, root, _named(arguments.name), lambda: cancel.cancelled)
        if arguments.newest_first:
            found = replace(found, entries=sorted(found.entries, key=_changed_at, reverse=True))
        return list_paths(found, context, arguments.max_results, f"nothing is named like {arguments.name}")

    return await asyncio.to_thread(search)


def _named(name: str) -> Callable[[str, os.DirEntry[str]], bool]:
    if re.search(r"[*?\[{/]", name):
        matches = glob_matcher(name)
        return lambda relative, entry: matches(relative)
    sought = name.casefold()
    return lambda relative, entry: sought in entry.name.casefold()


def _changed_at(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:  # gone since it was listed
        return 0


FIND = TypedTool(
    name="find",
    description="Find files and folders by name. Ignored ones are left out.",
    kind="search",
    effects=SEARCHES,
    arguments=FindArguments,
    describe=lambda arguments: f"Find {arguments.name}",
    perform=_find,
)

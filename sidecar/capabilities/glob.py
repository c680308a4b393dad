"""The glob tool: files by pattern. Opens none."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.access import readable_path, root_above
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.effects import SEARCHES
from sidecar.capabilities.tree import list_paths, select
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.workspace.globs import glob_matcher
from sidecar.workspace.ignore import is_folder

__all__ = ["GLOB", "GlobArguments"]


class GlobArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the glob tool takes."""

    pattern: Annotated[
        str,
        msgspec.Meta(min_length=1, description="Such as **/*.py or src/*.{ts,tsx}; no slash: at any depth."),
    ]
    path: Annotated[str, msgspec.Meta(description="The folder the pattern begins at.")] = "."
    max_results: Annotated[int, msgspec.Meta(ge=1, le=5000, description="Paths to show.")] = 500


async def _glob(arguments: GlobArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    start = await readable_path(context, arguments.path, "glob")
    matches = glob_matcher(arguments.pattern)

    def search() -> ToolReply:
        found = select(
            start,
            root_above(start, context),
            lambda relative, entry: matches(relative) and not is_folder(entry),
            lambda: cancel.cancelled,
        )
        return list_paths(found, context, arguments.max_results, f"no file matches {arguments.pattern}")

    return await asyncio.to_thread(search)


GLOB = TypedTool(
    name="glob",
    description="List the files whose path matches a pattern, by path. Ignored ones are left out.",
    kind="search",
    effects=SEARCHES,
    arguments=GlobArguments,
    describe=lambda arguments: f"List {arguments.pattern}",
    perform=_glob,
)

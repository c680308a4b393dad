"""Paths of tools: resolved, displayed, and permitted by the user when they lead out of the session's trees.

Nothing here reads or writes a file; a question without an answer counts as a no. A path that is not there is
answered with the nearest ones that are.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.contract import PermissionDecision, PermissionQuestion, ToolContext
from sidecar.permissions.access import ReadAccess
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.files import error_of_swap, require_resolved
from sidecar.workspace.ignore import walk
from sidecar.workspace.paths import ResolvedPath, resolve_path

_VERBS: Final = {
    "ls": "List",
    "grep": "Search",
    "find": "Find files in",
    "glob": "Find files in",
    "bash": "Run a command in",
}
"""What a tool does to a path, where its name is no word for it."""

_MOST_NEAR: Final = 3
_LEAST_ALIKE: Final = 0.7
_MOST_LOOKED_AT: Final = 20_000
_LOOK_S: Final = 0.3


class PermissionRefused(SidecarError):
    """The user, one of the user's rules or the mode of the session did not allow the action of a tool."""

    kind: ClassVar[str] = "notPermitted"

    def __init__(self, action: str, why: str | None = None) -> None:
        message = f"not allowed by the user: {action}" if why is None else f"not allowed: {action}: {why}"
        super().__init__(message, hint="ask the user how to go on")


async def resolve(context: ToolContext, spelled: str) -> ResolvedPath:
    """Resolve the path *spelled* by a model. Raises FileAccessError for a text that can name no file."""
    return await asyncio.to_thread(resolve_path, spelled, context.cwd, context.roots)


async def resolve_readable(context: ToolContext, spelled: str, tool: str) -> Path:
    """Resolve the path *spelled* by a model, and ask the user first when it leads outside.

    Raises:
        PermissionRefused: it leads outside and the user did not allow it.
        FileAccessError: *spelled* can name no file.
    """
    resolved = await resolve(context, spelled)
    await require_readable(context, resolved, tool)
    return resolved.path


async def view_readable(
    context: ToolContext, spelled: str, tool: str
) -> tuple[Path, FileView | FileAccessError]:
    """Resolve as :func:`resolve_readable`; return the file as it is now as well, or why it cannot be read."""
    resolved, view = await context.workspace.view_spelled(spelled, context.cwd, context.roots)
    await require_readable(context, resolved, tool)
    return resolved.path, view or await view_or_error(context, resolved.path)


async def require_readable(context: ToolContext, resolved: ResolvedPath, tool: str) -> None:
    """Ask the user about a path outside; raises as :func:`resolve_readable`."""
    is_own = context.output_folder is not None and resolved.path.parent == context.output_folder
    if not resolved.inside and not is_own:
        path = resolved.path
        question = PermissionQuestion(
            call_id=context.call_id,
            tool=tool,
            title=f"{_VERBS.get(tool, tool.capitalize())} {path}, outside the workspace",
            subject="path",
            detail=str(path),
            access=ReadAccess(path),
        )
        await require_permission(context, question)
        await asyncio.to_thread(require_resolved, resolved.path)


async def view_file(context: ToolContext, path: Path) -> FileView:
    """Return the resolved *path* as it is now. Raises FileAccessError, also when it has become a link."""
    view = await context.workspace.view(path)
    if view.path != path:
        raise error_of_swap(path)
    return view


async def view_or_error(context: ToolContext, path: Path) -> FileView | FileAccessError:
    """Return the resolved *path* as it is now, or the reason why it cannot be read."""
    try:
        return await view_file(context, path)
    except FileAccessError as problem:
        return problem


async def require_permission(context: ToolContext, question: PermissionQuestion) -> PermissionDecision:
    """Ask for permission and return the answer. Raises PermissionRefused unless it is given."""
    decision = await context.ask(question)
    if not decision.is_allowed:
        raise PermissionRefused(question.title, decision.why)
    return decision


async def find_near(spelled: str, context: ToolContext) -> str:
    """Return a hint with the files and folders that a wrong path may mean; empty for none.

    It is the new path of a file that the user has renamed. Else these are the ones of a similar name in its
    folder, else the ones of its name anywhere in the folder of the session that is not ignored.
    """
    named = context.cwd / spelled
    if (now := context.reads.path_now(named)) != named:
        return f"the user has renamed it to {display_path(now, context.cwd)}"

    def look() -> list[str]:
        resolved = resolve_path(spelled, context.cwd, context.roots)
        if not resolved.inside:
            return []
        with suppress(OSError):
            names = os.listdir(resolved.path.parent)
            if similar := get_close_matches(resolved.path.name, names, _MOST_NEAR, _LEAST_ALIKE):
                return [display_path(resolved.path.parent / name, context.cwd) for name in similar]
        ends_at = time.monotonic() + _LOOK_S
        entries = walk(
            context.cwd, context.cwd, cap=_MOST_LOOKED_AT, is_cancelled=lambda: time.monotonic() > ends_at
        )
        name = resolved.path.name.casefold()
        found = (entry.path for entry in entries if entry.name.casefold() == name)
        return [display_path(path, context.cwd) for path in islice(found, _MOST_NEAR)]

    try:
        near = await asyncio.to_thread(look)
    except FileAccessError:
        return ""
    return f"did you mean {' or '.join(near)}?" if near else ""


def display_path(path: Path | str, cwd: Path) -> str:
    """Return *path* as a model reads it: relative to *cwd* where it lies below, with forward slashes.

    >>> display_path(Path("/p/src/a.py"), Path("/p")), display_path("/etc/hosts", Path("/p"))
    ('src/a.py', '/etc/hosts')
    """
    path = Path(path)
    return (path.relative_to(cwd) if path.is_relative_to(cwd) else path).as_posix()


def outermost_root(path: Path, context: ToolContext) -> Path:
    """Return the outermost root that holds *path*, else *path*: its ignore rules begin there."""
    above = [root for root in context.roots if path.is_relative_to(root)]
    return min(above, key=lambda root: len(root.parts), default=path)

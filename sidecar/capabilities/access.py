"""Where a tool may go: paths resolved, shown, and asked for where they lead out of the session's trees.

Nothing here reads or writes a file; an unanswered question is a no.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.contract import PermissionAsk, ToolContext
from sidecar.workspace.roots import ResolvedPath, resolve_path

__all__ = ["NotPermitted", "permit", "readable_path", "resolve", "root_above", "shown"]


class NotPermitted(SidecarError):
    """The user did not allow what a tool asked for."""

    kind: ClassVar[str] = "notPermitted"

    def __init__(self, what: str) -> None:
        super().__init__(f"not allowed by the user: {what}", hint="ask the user how to go on")


async def resolve(context: ToolContext, spelled: str) -> ResolvedPath:
    """Return where *spelled* leads. Raises FileProblem for what names no file."""
    return await asyncio.to_thread(resolve_path, spelled, context.cwd, context.roots)


async def readable_path(context: ToolContext, spelled: str, tool: str) -> Path:
    """Return where *spelled* leads, once the user has agreed if that is outside. Raises NotPermitted."""
    resolved = await resolve(context, spelled)
    if not resolved.inside:
        path = resolved.path
        folder = path if await asyncio.to_thread(path.is_dir) else path.parent
        title = f"{tool.capitalize()} {path}, outside the workspace"
        await permit(
            context, PermissionAsk(context.call_id, tool, title, "path", str(path), f"path:{folder}")
        )
    return resolved.path


async def permit(context: ToolContext, ask: PermissionAsk) -> None:
    """Ask, and raise NotPermitted unless the answer is yes."""
    if not await context.ask(ask):
        raise NotPermitted(ask.title)


def shown(path: Path | str, cwd: Path) -> str:
    """Return *path* as a model reads it: relative to *cwd* where it lies below, with forward slashes.

    >>> shown(Path("/p/src/a.py"), Path("/p")), shown("/etc/hosts", Path("/p"))
    ('src/a.py', '/etc/hosts')
    """
    path = Path(path)
    return (path.relative_to(cwd) if path.is_relative_to(cwd) else path).as_posix()


def root_above(path: Path, context: ToolContext) -> Path:
    """Return the outermost root that holds *path*, else *path*: where its ignore rules begin."""
    above = [root for root in context.roots if path.is_relative_to(root)]
    return min(above, key=lambda root: len(root.parts), default=path)

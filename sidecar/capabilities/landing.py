"""How a change lands in a file: only over what the model has read, only with leave, and on the record.

Shared by the tools that change files; decides nothing about what the new text is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidecar.capabilities.access import permit, resolve, shown
from sidecar.capabilities.contract import Diff, PermissionAsk, ToolContext
from sidecar.workspace.contract import FileProblem, FileView, ReadRecord
from sidecar.workspace.roots import ResolvedPath

__all__ = ["Landing", "Target", "find_target", "land", "require_current"]

EDIT_SCOPE = "edit"


@dataclass(frozen=True, slots=True)
class Target:
    """A file to change: where it is, and how it stands, None while it does not exist."""

    resolved: ResolvedPath
    view: FileView | None

    @property
    def path(self) -> Path:
        """The resolved path."""
        return self.resolved.path


@dataclass(frozen=True, slots=True)
class Landing:
    """How a change went in: the view after it, the diff, and a note where the text is not what was sent."""

    view: FileView
    diff: Diff
    note: str | None = None


async def find_target(context: ToolContext, spelled: str) -> Target:
    """Return the file *spelled* names, as it stands now. Raises FileProblem but for ``notFound``."""
    resolved = await resolve(context, spelled)
    try:
        return Target(resolved, await context.workspace.view(resolved.path))
    except FileProblem as problem:
        if problem.problem != "notFound":
            raise
        return Target(resolved, None)


def require_current(context: ToolContext, view: FileView) -> ReadRecord:
    """Return the record of *view*. Raises FileProblem unless the model has read just this text."""
    name = shown(view.path, context.cwd)
    record = context.reads.get(view.path)
    if record is None:
        raise FileProblem("notReadYet", f"{name} was not read yet", hint="read it, then change it")
    if record.hash != view.hash:
        where = "in the editor" if view.source == "buffer" else "on disk"
        raise FileProblem(
            "changedSinceRead", f"{name} has changed {where} since it was read", hint="read it again"
        )
    return record


async def land(context: ToolContext, tool: str, target: Target, text: str) -> Landing:
    """Ask for leave, write *text* and return how it went. Raises NotPermitted and FileProblem.

    What changes while the user thinks is noticed by the write.
    """
    before = target.view
    diff = Diff(target.path, None if before is None else before.text, text)
    title = f"{tool.capitalize()} {shown(target.path, context.cwd)}"
    inside = target.resolved.inside
    ask = PermissionAsk(
        call_id=context.call_id,
        tool=tool,
        title=title if inside else f"{title}, outside the workspace",
        subject="toolCall" if inside else "path",
        detail=str(target.path),
        # Leave to read outside is no leave to write there.
        scope=EDIT_SCOPE if inside else f"{EDIT_SCOPE}:{target.path.parent}",
        diffs=(diff,),
    )
    await permit(context, ask)
    expected_hash = None if before is None else before.hash
    view = await context.workspace.write(target.path, text, expected_hash=expected_hash)
    note = None if view.text == text else "[the editor changed the text on the way; read it again]"
    return Landing(view, diff, note)

"""The files of a command line that the bash tool runs: kept before a change, noted when they were shown.

Only files that the line names count, inside the session's folders. A file counts as read where its lines
stand in the output as they are: the model has then seen them as the file has them now. A file that the model
knew whole, and that its own command changed by name, stays known: the reply shows the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Final

from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.paths import display_path
from sidecar.text.results import lines_shown
from sidecar.text.touches import Touch, use_of_line
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.paths import resolve_path

MAX_FILES: Final = 20
"""So many files of one line are looked at."""

_DIFF_CHARS: Final = 2_000


async def find_changed_paths(command: str, cwd: Path, context: ToolContext) -> tuple[Path, ...]:
    """Return the files in the session's folders that *command* changes by their names."""
    touches = use_of_line(command).touches
    return await resolve_all((path for touch in touches for path in touch.changed_paths), cwd, context)


async def note_files_shown(command: str, cwd: Path, reply: ToolReply, context: ToolContext) -> None:
    """Record the files that *command* has shown by *reply*, or written with a text of its own."""
    use = use_of_line(command)
    touches = use.touches_after_failure if reply.is_error else use.touches
    last: dict[str, Touch] = {
        touch.path: touch
        for touch in touches
        if touch.kind == "read" or (touch.kind == "write" and touch.text)
    }
    for touch in [*last.values()][:MAX_FILES]:
        for path in await resolve_all([touch.path], cwd, context):
            with suppress(FileAccessError):
                view = await context.workspace.view(path)
                if touch.kind == "write":
                    if view.text == touch.text:
                        context.reads.record(view, call_id=context.call_id)
                    continue
                lines = view.text.removesuffix("\n").split("\n")
                found = await asyncio.to_thread(lines_shown, lines, touch.ranges, str(reply.output))
                if found is not None:
                    first, count = found
                    is_whole = (first, count) == (1, len(lines))
                    context.reads.record(
                        view,
                        call_id=context.call_id,
                        first_line=first,
                        line_count=None if is_whole else count,
                    )


async def view_known_files(command: str, cwd: Path, context: ToolContext) -> list[FileView]:
    """Return the files that *command* changes by their names, as far as the model knows all of them."""
    known: list[FileView] = []
    for path in (await find_changed_paths(command, cwd, context))[:MAX_FILES]:
        record = context.reads.get(path)
        with suppress(FileAccessError):
            if record is not None and not record.ranges:
                view = await context.workspace.view(path)
                known += [view] if view.hash == record.hash else []
    return known


async def show_own_changes(known: Iterable[FileView], context: ToolContext) -> str:
    """Return the changes of *known* files by a command as short diffs, and record these files as read."""
    parts: list[str] = []
    for before in known:
        with suppress(FileAccessError):
            view = await context.workspace.view(before.path)
            record = context.reads.get(before.path)
            if record is not None and record.hash == view.hash:
                continue
            name = display_path(before.path, context.cwd)
            old, new = before.text.splitlines(), view.text.splitlines()
            diff = "\n".join(unified_diff(old, new, name, name, n=1, lineterm=""))
            if 0 < len(diff) <= _DIFF_CHARS:
                context.reads.record(view, call_id=context.call_id)
                parts.append(f"{diff}\n")
    return "".join(parts)


async def resolve_all(spelled: Iterable[str], cwd: Path, context: ToolContext) -> tuple[Path, ...]:
    """Return the paths *spelled* in the folder *cwd*, resolved, as far as the session's folders hold them."""

    def resolve() -> tuple[Path, ...]:
        found: dict[Path, None] = {}
        for each in spelled:
            with suppress(FileAccessError, OSError):
                resolved = resolve_path(each, cwd, context.roots)
                if resolved.inside:
                    found[resolved.path] = None
        return tuple(found)

    return await asyncio.to_thread(resolve)

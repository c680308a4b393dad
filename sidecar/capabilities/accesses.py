"""The permission that a call of a tool would need, from its arguments alone: nothing is run, read or changed.

A tool itself asks in the middle of its work. This is the same question before there is any call, so that a
user can ask which rule would answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.bash import runs_posix_shell
from sidecar.permissions.access import (
    Access,
    CommandAccess,
    EditAccess,
    FetchAccess,
    PatchAccess,
    ReadAccess,
    ServerToolAccess,
)
from sidecar.text.calls import FETCHES_PAGE, ToolEffects
from sidecar.workspace.paths import resolve_path


def access_of_call(
    tool: str, effects: ToolEffects, arguments: Mapping[str, Any], cwd: Path, roots: tuple[Path, ...]
) -> Access | None:
    """Return the action that a call of *tool* needs permission for, None for a call that asks for nothing.

    Args:
        tool: its name; that of a server's tool is ``mcp__SERVER__TOOL``.
        effects: its declared effects.
        arguments: the arguments of the call.
        cwd: the folder of the session, resolved.
        roots: all its folders, resolved.

    Raises:
        InvalidInput: an argument is missing.
        FileAccessError: a path can name no file.
    """
    prefix, _, rest = tool.partition("__")
    if prefix == "mcp" and rest:
        server, _, name = rest.partition("__")
        return ServerToolAccess(server, name, is_read_only=effects.kind != "anything")
    if effects.kind in ("none", "anything"):
        return None
    given = (arguments.get(name) for name in effects.arguments)
    text = next((value for value in given if isinstance(value, str) and value.strip()), None)
    if text is None and effects.kind == "searches" and effects != FETCHES_PAGE:
        text = "."
    if text is None:
        hint = f"its input has {' or '.join(map(repr, effects.arguments))}, a string"
        raise InvalidInput(f"the input does not say what {tool} is to do", hint=hint)
    if effects == FETCHES_PAGE:
        return FetchAccess(urlsplit(text).netloc.lower())
    if effects.kind == "runs":
        folder = resolve_path(str(arguments.get("cwd") or "."), cwd, roots).path
        return CommandAccess(text, folder, is_posix=runs_posix_shell())
    paths = [resolve_path(path, cwd, roots) for path in effects.paths_in({effects.arguments[0]: text})]
    if not effects.may_change:
        return next((ReadAccess(each.path) for each in paths if not each.inside), None)
    edits = tuple(EditAccess(each.path, each.inside) for each in paths)
    if not edits:
        raise InvalidInput(
            f"the input of {tool} names no file", hint="a patch names its files in its headings"
        )
    return edits[0] if len(edits) == 1 else PatchAccess(edits)

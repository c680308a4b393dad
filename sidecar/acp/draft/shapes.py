"""Small shapes that the draft spells in its own way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from sidecar.acp.tool_updates import text_content

__all__ = ["commands", "config_options", "diff_content", "tool_content"]

_MOST_PATCHED_CHARS: Final = 200_000
"""Of longer texts only that they changed is told: finding out how takes too long."""


def config_options(options: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the knobs of a session.

    >>> config_options([{"id": "model", "name": "Model"}])
    [{'configId': 'model', 'name': 'Model'}]
    """
    return [
        {"configId": option["id"], **{name: option[name] for name in option if name != "id"}}
        for option in options
    ]


def commands(offered: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the slash commands on offer."""
    return [_command(command) for command in offered]


def tool_content(diffs: Sequence[Mapping[str, Any]], said: object) -> list[dict[str, Any]]:
    """Return what a call shows: its changes of files where it makes some, else what it says."""
    if diffs:
        return [diff_content(diff) for diff in diffs]
    return [text_content(said)] if isinstance(said, str) and said else []


def diff_content(diff: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of a file, with a patch where one is made in no time."""
    path, old, new = diff["path"], diff.get("oldText"), diff["newText"]
    operation = "add" if old is None else "modify"
    content = {"type": "diff", "changes": [{"operation": operation, "path": path, "fileType": "text"}]}
    if len(old or "") + len(new) > _MOST_PATCHED_CHARS:
        return content
    return content | {"patch": {"format": "git_patch", "text": _patch(path, old, new)}}


def _patch(path: str, old: str | None, new: str) -> str:
    name = path.replace("\\", "/").lstrip("/")
    head = f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n" if old is None else "")
    before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
    source = "/dev/null" if old is None else f"a/{name}"
    lines = unified_diff(before, after, source, f"b/{name}")
    return head + "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _command(command: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"type": "command", "name": command["name"], "description": command["description"]}
    hint = command.get("hint")
    return shown if hint is None else {**shown, "input": {"type": "text", "hint": hint}}


_NO_NEWLINE: Final = "\\ No newline at end of file\n"

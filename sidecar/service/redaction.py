"""Takes out of a message what it is about and leaves what it is: names, numbers, ids, kinds, paths. Pure.

Only strings under names that are known to hold no content are kept; everything else a user, a model or a file
said becomes its length. So the shape of a conversation can be shown, and played again, without its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["redact"]

# fmt: off
_KEPT: Final = frozenset((
    "afterHead", "asOfNode", "atNode", "backend", "beforeHead", "category", "cause", "client",
    "configId", "currentValue", "cursor", "cwd", "disposition", "dropped", "engine", "engines",
    "expectHead", "face", "format", "globs", "hash", "head", "keptFrom", "kind", "leaves",
    "level", "method", "missing", "mode", "model", "next", "nextCursor", "nodeIds", "nowHash",
    "optionId", "outcome", "parent", "part", "path", "paths", "phase", "priority", "queue",
    "readAtNode", "readHash", "reason", "rehydrated", "removed", "replay", "role", "roots",
    "severity", "sid", "source", "status", "stopReason", "summarySource", "toNode", "tool",
    "trigger", "type", "undone", "uri", "uris", "value", "view", "whenBusy",
))
# fmt: on
"""Names of fields whose strings say nothing of what a conversation is about."""


_CONTENT: Final = frozenset(
    ("input", "output", "content", "blocks", "diffs", "edit", "info", "env", "headers", "args")
)
"""Names of fields that hold what somebody said, or secrets; only a ``type`` is kept below them."""


def redact(value: Any, name: str = "", *, is_content: bool = False) -> Any:
    """Return the JSON *value*, found under *name*, without its content; with *is_content* it is all of it.

    >>> redact({"sid": "s1", "input": [{"type": "text", "text": "my secret plan"}]})
    {'sid': 's1', 'input': [{'type': 'text', 'text': '<14 chars>'}]}
    """
    if isinstance(value, str):
        return value if name == "type" or (not is_content and _is_kept(name)) else f"<{len(value)} chars>"
    if isinstance(value, Mapping):
        below = is_content or name in _CONTENT
        return {key: redact(item, key, is_content=below) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, name, is_content=is_content) for item in value]
    return value


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.endswith(("Id", "Ids", "Token"))

"""The commands of ``workspace/executeCommand``, for clients that cannot send the methods that they stand for.

A command takes one object, the params of its method. The tokens of the request become params, too. The module
holds the table alone, so that a new command is one line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar._internal.errors import InvalidInput

_TOKENS: Final = ("workDoneToken", "partialResultToken")

COMMANDS: Final = {
    "sidecar.prompt": "sidecar/turn/run",
    "sidecar.steer": "sidecar/turn/steer",
    "sidecar.interrupt": "sidecar/turn/interrupt",
    "sidecar.compact": "sidecar/compact/start",
    "sidecar.compactPreview": "sidecar/compact/preview",
    "sidecar.uncompact": "sidecar/compact/undo",
    "sidecar.expand": "sidecar/context/expand",
    "sidecar.context": "sidecar/context/usage",
    "sidecar.drop": "sidecar/context/drop",
    "sidecar.pin": "sidecar/context/pin",
    "sidecar.sessions": "sidecar/session/list",
    "sidecar.attach": "sidecar/attach",
    "sidecar.new": "sidecar/session/new",
    "sidecar.newSession": "sidecar/session/new",
    "sidecar.fork": "sidecar/session/fork",
    "sidecar.status": "sidecar/status",
}
"""The commands on offer, each with its method."""


def resolve_command(params: Any) -> tuple[str, dict[str, Any]]:
    """Return the method that *params* of executeCommand request, and its params. Raises InvalidInput.

    >>> resolve_command({"command": "sidecar.context", "arguments": [{"sid": "s"}], "workDoneToken": 1})
    ('sidecar/context/usage', {'workDoneToken': 1, 'sid': 's'})
    """
    if not isinstance(params, Mapping):
        raise InvalidInput("executeCommand needs an object with a command")
    command, arguments = params.get("command"), params.get("arguments") or []
    method = COMMANDS.get(command) if isinstance(command, str) else None
    if method is None:
        raise InvalidInput(f"no command {command!r:.100}", hint=f"the commands are {', '.join(COMMANDS)}")
    given = arguments[0] if isinstance(arguments, list) and arguments else {}
    if not isinstance(arguments, list) or len(arguments) > 1 or not isinstance(given, Mapping):
        raise InvalidInput(f"{command} takes one object, the params of {method}")
    tokens = {name: params[name] for name in _TOKENS if params.get(name) is not None}
    return method, {**tokens, **given}

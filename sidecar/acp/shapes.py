"""Small shapes of the Agent Client Protocol that more than one message has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

__all__ = [
    "Update",
    "WireEvent",
    "commands_update",
    "iso_time",
    "mode_option",
    "mode_state",
    "text_block",
    "usage_update",
]

Update: TypeAlias = dict[str, Any]
"""The ``update`` of one ``session/update``."""

WireEvent: TypeAlias = Mapping[str, Any]
"""An event as ``sidecar/event`` carries it: ``{sid, seq, turnId?, at, kind, data}``."""


def text_block(text: str) -> dict[str, str]:
    """Return a content block of *text*."""
    return {"type": "text", "text": text}


def iso_time(ms: int) -> str:
    """Return a moment in epoch milliseconds as ISO 8601.

    >>> iso_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def mode_option(options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the config option that is the session's mode, or None."""
    return next((option for option in options if option.get("category") == "mode"), None)


def mode_state(options: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the config option of category ``mode`` as session modes, for clients older than options.

    None when there is no such option.
    """
    mode = mode_option(options)
    if mode is None:
        return None
    keys = ("name", "description")
    modes = [
        {"id": each["value"], **{key: each[key] for key in keys if key in each}} for each in mode["options"]
    ]
    return {"currentModeId": mode["currentValue"], "availableModes": modes}


def usage_update(usage: Mapping[str, Any]) -> Update:
    """Return how full the window is; where the figure comes from is in ``_meta``."""
    update: Update = {"sessionUpdate": "usage_update", "used": usage["used"], "size": usage["window"]}
    if (cost := usage.get("cost")) is not None:
        update["cost"] = {"amount": cost, "currency": "USD"}
    return update | {"_meta": {"sidecar": usage}}


def commands_update(commands: Sequence[Mapping[str, Any]]) -> Update:
    """Return the slash commands on offer."""
    return {"sessionUpdate": "available_commands_update", "availableCommands": list(map(_command, commands))}


def _command(command: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"name": command["name"], "description": command["description"]}
    hint = command.get("hint")
    return shown if hint is None else {**shown, "input": {"hint": hint}}

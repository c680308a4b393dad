"""Small shapes of the Agent Client Protocol that several messages share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from sidecar.workspace.paths import path_to_uri

_TOOL_KINDS: Final = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
)

WORK_FIELDS: Final = ("state", "since", "waitingFor", "text")
"""The fields of a line in the list of sessions that say what the session does, or waits for."""

Update: TypeAlias = dict[str, Any]
"""The ``update`` of one ``session/update``."""

WireEvent: TypeAlias = Mapping[str, Any]
"""An event as ``sidecar/event`` carries it: ``{sid, seq, turnId?, at, kind, data}``."""


def make_update(kind: str, /, **fields: Any) -> Update:
    """Return the update *kind* with these fields.

    >>> make_update("plan", entries=[])
    {'sessionUpdate': 'plan', 'entries': []}
    """
    return {"sessionUpdate": kind, **fields}


def text_block(text: str) -> dict[str, str]:
    """Return a content block of *text*."""
    return {"type": "text", "text": text}


def text_content(text: str) -> dict[str, Any]:
    """Return *text* as content of a tool call."""
    return {"type": "content", "content": text_block(text)}


def diff_content(diff: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of a file as content of a tool call, with its URI in ``_meta``."""
    shown = {"type": "diff", **{key: diff[key] for key in ("path", "oldText", "newText") if key in diff}}
    hunks = {"hunks": diff["hunks"]} if diff.get("hunks") else {}
    return shown | {"_meta": {"sidecar": {"uri": path_to_uri(Path(diff["path"])), **hunks}}}


def tool_kind(kind: str) -> str:
    """Return *kind* if the protocol knows it, else ``other``."""
    return kind if kind in _TOOL_KINDS else "other"


def iso_time(ms: int) -> str:
    """Return a moment in epoch milliseconds as ISO 8601.

    >>> iso_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def option_of(options: Sequence[Mapping[str, Any]], category: str) -> Mapping[str, Any] | None:
    """Return the config option of a *category*, such as ``mode`` or ``model``, or None."""
    return next((option for option in options if option.get("category") == category), None)


def mode_state(options: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the config option of category ``mode`` as session modes, for clients that know no options.

    Returns None when there is no such option.
    """
    mode = option_of(options, "mode")
    if mode is None:
        return None
    return {"currentModeId": mode["currentValue"], "availableModes": _choices(mode, "id")}


def model_state(options: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the config option of category ``model`` as the models of a session.

    Panels had a picker of models before the protocol had config options, and some have no other.
    """
    model = option_of(options, "model")
    if model is None:
        return None
    return {"currentModelId": model["currentValue"], "availableModels": _choices(model, "modelId")}


def _choices(option: Mapping[str, Any], name_of_id: str) -> list[dict[str, Any]]:
    return [{name_of_id: each["value"], "name": each["name"]} for each in option["options"]]


def config_updates(options: Sequence[Mapping[str, Any]]) -> Iterator[Update]:
    """Yield the options of a session, and its mode if it has modes."""
    yield make_update("config_option_update", configOptions=options)
    if (mode := option_of(options, "mode")) is not None:
        yield make_update("current_mode_update", currentModeId=mode["currentValue"])


def usage_updates(usage: Mapping[str, Any]) -> Iterator[Update]:
    """Yield the update of how full the window is; none for an unknown window, which a panel would show as 0.

    The source of the figure is in ``_meta``.
    """
    if not usage["window"]:
        return
    cost = usage.get("cost")
    fields = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
    meta = {"sidecar": usage}
    yield make_update("usage_update", used=usage["used"], size=usage["window"], _meta=meta, **fields)


def stop_reason_of(end: Mapping[str, Any]) -> str | None:
    """Return the reason why a turn ended in a word of the protocol, which has none for a budget.

    Returns None for a turn that failed; *end* is the data of its last event.
    """
    reason = end.get("stopReason")
    return "max_turn_requests" if reason == "budget" or end.get("kind") == "turnBudget" else reason


def commands_update(commands: Sequence[Mapping[str, Any]], **of_input: str) -> Update:
    """Return the update of the slash commands on offer; *of_input* are further fields of their arguments."""
    shown = [
        {
            "name": command["name"],
            "description": command["description"],
            **({"input": {**of_input, "hint": command["hint"]}} if command.get("hint") is not None else {}),
        }
        for command in commands
    ]
    return make_update("available_commands_update", availableCommands=shown)

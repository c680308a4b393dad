"""The schema of the Agent Client Protocol, against which the messages of a conversation are checked.

Where the schema is not beside the checkout, nothing is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

__all__ = ["MATERIAL", "SCHEMA", "check_messages", "check_update"]

MATERIAL: Final = Path(__file__).parents[3] / "shared" / "data" / "dev"
SCHEMA: Final = MATERIAL / "acp-schema" / "schema-v1.json"

_TEXT: Final = {"type": "object", "required": ["type", "text"]}
_STATUSES: Final = ["in_progress", "completed", "failed", "cancelled"]
LATER: Final[dict[str, dict[str, Any]]] = {
    "notice": {
        "required": ["severity", "title"],
        "properties": {
            "severity": {"enum": ["info", "warning", "error"]},
            "title": {"type": "string"},
            "description": {"type": "string"},
        },
    },
    "compaction_update": {
        "required": ["compactionId", "status"],
        "properties": {
            "compactionId": {"type": "string"},
            "status": {"enum": _STATUSES},
            "summary": {"type": "array", "items": _TEXT},
            "error": {"type": "string"},
        },
    },
    "compaction_summary_chunk": {
        "required": ["compactionId", "content"],
        "properties": {"compactionId": {"type": "string"}, "content": _TEXT},
    },
    "subagent_update": {
        "required": ["sessionId"],
        "properties": {
            "sessionId": {"type": "string"},
            "title": {"type": "string"},
            "capabilities": {"properties": {"cancel": {"type": "object"}}},
            "state": {
                "required": ["state"],
                "properties": {
                    "state": {"enum": ["running", "requires_action", "idle"]},
                    "stopReason": {"enum": ["end_turn", "max_tokens", "refusal", "cancelled"]},
                },
            },
        },
    },
}
"""Updates of the protocol that are younger than the schema; a client asks for each by a capability."""


@cache
def definitions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    return found


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of one definition."""
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions()})


@cache
def definition(method: str, ending: str) -> str | None:
    """Return the name of the params or result of a method, None for methods of our own."""
    found = (name for name, body in definitions().items() if body.get("x-method") == method)
    return next((name for name in found if name.endswith(ending)), None)


def check_value(name: str | None, value: Any) -> None:
    if name is not None:
        problem = next(validator(name).iter_errors(value), None)
        assert problem is None, f"{name}: {problem.message} in {json.dumps(value)[:500]}"


def check_update(params: Mapping[str, Any]) -> None:
    """Hold the params of one ``session/update`` against the schema."""
    if not SCHEMA.exists():
        return
    later = LATER.get(params["update"]["sessionUpdate"])
    if later is None:
        check_value("SessionNotification", params)
        return
    problem = next(Draft202012Validator(later).iter_errors(params["update"]), None)
    assert problem is None, f"{params['update']}: {problem.message}"


def check_messages(sent: list[dict[str, Any]], received: list[dict[str, Any]]) -> None:
    """Check every message of the daemon in one conversation against the schema."""
    if not SCHEMA.exists():
        return
    asked = {repr(each["id"]): each["method"] for each in sent if "method" in each and "id" in each}
    for message in received:
        assert message["jsonrpc"] == "2.0"
        if message.get("method") == "session/update":
            check_update(message["params"])
        elif "method" in message:
            ending = "Request" if "id" in message else "Notification"
            check_value(definition(message["method"], ending), message["params"])
        elif "error" in message:
            check_value("Error", message["error"])
            assert isinstance(message["error"]["data"]["kind"], str)
        elif isinstance(method := asked.get(repr(message["id"])), str):
            check_value(definition(method, "Response"), message["result"])

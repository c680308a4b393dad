"""A history as the text a summariser reads (fact A10).

Pure and stable: the same messages give the same bytes, arguments in the order of their names (failure B-A6).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sidecar.agentcore.files import split_sections
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, ToolCall
from sidecar.agentcore.text import shorten

__all__ = ["render_call", "serialize_parts"]

_MAX_RESULT, _MAX_ARGUMENT, _MAX_RAW_ARGUMENTS = 500, 100, 200


def serialize_parts(messages: Sequence[AgentMessage]) -> tuple[str, ...]:
    """Return the labelled parts of *messages*, to be joined by blank lines; empty ones are left out.

    Images are named, results bear the name of their tool and whether they are errors, and system notes are
    kept (failure B-A11). Messages of a foreign type, which no model ever saw, are not.

    >>> from sidecar.agentcore.messages import call_block, tool_message
    >>> call = Message("assistant", (call_block("1", "read", '{"path": "a.py", "limit": 5}'),))
    >>> serialize_parts([call, tool_message("1", "no such file", is_error=True)])
    ('[Assistant tool calls]: read(limit=5, path=a.py)', '[Tool result error]: no such file\\n(tool: read)')
    """
    names: dict[str, str] = {}
    parts: list[str] = []
    for message in messages:
        if isinstance(message, CompactionSummary):
            parts.append(f"[Previous summary]: {split_sections(message.summary)[0]}")
        elif isinstance(message, Message):
            names.update((call.id, call.name) for call in message.tool_calls())
            parts.extend(_message_parts(message, names))
    return tuple(parts)


def render_call(call: ToolCall) -> str:
    """Return a call as ``name(key=value, ...)`` with its keys sorted; what is no JSON object stays raw.

    >>> render_call(ToolCall("1", "ls", '{"b": [1, 2], "a": "x"}'))
    'ls(a=x, b=[1,2])'
    """
    try:
        arguments = json.loads(call.args) if call.args else {}
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({shorten(call.args, _MAX_RAW_ARGUMENTS)})"
    pairs = [f"{key}={shorten(_value(arguments[key]), _MAX_ARGUMENT)}" for key in sorted(arguments)]
    return f"{call.name}({', '.join(pairs)})"


def _message_parts(message: Message, names: dict[str, str]) -> list[str]:
    if message.role == "tool":
        return [_result_part(message, names)]
    label = {"user": "[User]: ", "system": "[System]: ", "assistant": "[Assistant]: "}[message.role]
    calls = "; ".join(map(render_call, message.tool_calls()))
    parts = [
        ("[Assistant thinking]: ", message.thinking_content()),
        (label, _text_with_images(message)),
        ("[Assistant tool calls]: ", calls),
    ]
    return [head + body for head, body in parts if body]


def _result_part(message: Message, names: dict[str, str]) -> str:
    label = "[Tool result error]: " if message.is_error else "[Tool result]: "
    name = message.metadata.get("tool_name") or names.get(message.tool_call_id or "")
    source = f"\n(tool: {name})" if name else ""
    return label + shorten(_text_with_images(message), _MAX_RESULT) + source


def _text_with_images(message: Message) -> str:
    """Return the text as the model saw it, a line ``[image]`` where an image stood."""
    text = "".join(["\n[image]\n" if b.type == "image" else b.text for b in message.content])
    return text.strip("\n") if any(b.type == "image" for b in message.content) else text


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

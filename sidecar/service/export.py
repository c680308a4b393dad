"""A conversation as text: for people to read, or for programs, one node a line or all in one object. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from sidecar.conductor.info import SessionInfo
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import NodeView

__all__ = ["ExportFormat", "export_text"]

ExportFormat: TypeAlias = Literal["markdown", "jsonl", "json"]

_HEADINGS = {"user": "You", "assistant": "Assistant", "tool": "Tools"}
_FENCES = re.compile(r"^`{3,}", re.MULTILINE)


def export_text(info: SessionInfo, nodes: Sequence[NodeView], form: ExportFormat) -> str:
    """Return the session *info* with *nodes*, oldest first, in the form asked for; it ends with a newline."""
    match form:
        case "markdown":
            return "\n\n".join((f"# {info.title or 'Untitled'}", *_sections(nodes))) + "\n"
        case "jsonl":
            return "".join(f"{_json(to_wire(node))}\n" for node in nodes)
        case "json":
            head = {"sid": info.sid, "title": info.title, "cwd": info.cwd, "model": info.model}
            times = {"createdAt": info.created_at, "updatedAt": info.updated_at}
            return _json({**head, **times, "nodes": [to_wire(node) for node in nodes]}) + "\n"


def _sections(nodes: Sequence[NodeView]) -> Iterator[str]:
    """Yield the parts of the conversation, under a heading whenever somebody else speaks."""
    speaker = ""
    for node in nodes:
        if node.role != speaker:
            speaker = node.role
            yield f"## {_HEADINGS.get(speaker, speaker)}"
        yield from (part for block in node.blocks if (part := _block(block)))


def _block(block: Mapping[str, Any]) -> str:
    match block.get("kind"):
        case "text":
            return str(block["text"]).strip()
        case "thinking":
            return "\n".join(f"> {line}" for line in str(block["text"]).strip().splitlines())
        case "tool_call":
            return f"`{block['name']}`\n\n{_fenced(_pretty(block.get('input')), 'json')}"
        case "tool_result":
            output = block.get("output")
            text = output if isinstance(output, str) else _pretty(output)
            return _fenced(text, "") if text.strip() else "(nothing)"
    return f"({block.get('kind')})"


def _fenced(text: str, language: str) -> str:
    """Return *text* in a fence longer than any inside it."""
    longest = max((len(fence) for fence in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

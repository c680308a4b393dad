"""Export a conversation as text: Markdown for people; JSON, or one node a line, for programs. Pure.

The text comes in pieces, a node each, so that a long conversation is never held twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from sidecar.conductor.record.records import SessionInfo
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import NodeView

ExportFormat: TypeAlias = Literal["markdown", "jsonl", "json"]

_HEADINGS: Final = {"user": "You", "assistant": "Assistant", "tool": "Tools"}
_FENCES: Final = re.compile(r"^`{3,}", re.MULTILINE)


def export_text(info: SessionInfo, nodes: Iterable[NodeView], form: ExportFormat) -> Iterator[str]:
    """Yield the pieces of a conversation as text that ends with a newline.

    Args:
        info: the session; its title is the heading.
        nodes: the nodes, oldest first.
        form: the format.
    """
    match form:
        case "markdown":
            yield f"# {info.title or 'Untitled'}"
            for part in _markdown_parts(nodes):
                yield f"\n\n{part}"
            yield "\n"
        case "jsonl":
            for node in nodes:
                yield f"{_json(to_wire(node))}\n"
        case "json":
            head = {"sid": info.sid, "title": info.title, "cwd": info.cwd, "model": info.model}
            times = {"createdAt": info.created_at, "updatedAt": info.updated_at}
            yield _json({**head, **times, "nodes": []})[: -len("]}")]
            for number, node in enumerate(nodes):
                yield f"{', ' * (number > 0)}{_json(to_wire(node))}"
            yield "]}\n"


def _markdown_parts(nodes: Iterable[NodeView]) -> Iterator[str]:
    """Yield the paragraphs, with a heading wherever the role changes."""
    role = ""
    for node in nodes:
        if node.role != role:
            role = node.role
            yield f"## {_HEADINGS.get(role, role)}"
        yield from filter(None, map(_markdown_block, node.blocks))


def _markdown_block(block: Mapping[str, Any]) -> str:
    match block.get("kind"):
        case "text":
            return str(block["text"]).strip()
        case "thinking":
            return "\n".join(f"> {line}" for line in str(block["text"]).strip().splitlines())
        case "command":
            return f"`/{' '.join((block['command'], *block.get('args', ())))}`"
        case "tool_call":
            return f"`{block['name']}`\n\n{_fence(_json(block.get('input'), indent=2), 'json')}"
        case "tool_result":
            output = block.get("output")
            text = output if isinstance(output, str) else _json(output, indent=2)
            return _fence(text) if text.strip() else "(nothing)"
    return f"({block.get('kind')})"


def _fence(text: str, language: str = "") -> str:
    """Return *text* in a fence that is longer than any inside it."""
    longest = max((len(fence) for fence in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)

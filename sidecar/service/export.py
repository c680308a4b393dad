"""Export a conversation as text, or in the forms of other agents, so that they can go on with it. Pure.

Markdown is for people; JSON, or one node a line, for programs. The text comes in pieces, a node each, so that
a long conversation is never held twice.

The forms of other agents are JSON lines. Claude Code continues a session with ``claude --resume`` when its
file lies in its folder of the project, Codex with ``codex resume`` from its folder of sessions. Reasoning is
left out, because it counts only with the proof of the model that wrote it. Every call has its result, as it
is stored.

A compaction is written where it happened: a boundary and the summary for Claude Code, a replaced history for
Codex. So a view of the whole conversation keeps everything, and the other agent still sends its model only
the part behind the newest compaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import NAMESPACE_URL, UUID, uuid5

from sidecar._internal.values import Value
from sidecar.conductor.contract import Compaction
from sidecar.conductor.records import SessionInfo
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    join_texts,
)
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import NodeView

_Line: TypeAlias = dict[str, Any]
_VERSION: Final = "2.0.0"
_NOT_IN_IDS: Final = re.compile(r"[^\w-]", re.ASCII)


class ExportedCompaction(Value, kw_only=True):
    """A compaction between two messages.

    Attributes:
        id: an id of its own.
        summary: the text that stands for the messages before it.
        kept: the messages before it that stay in view, oldest first.
        tokens: the size of the conversation before it.
    """

    id: str
    summary: str
    kept: tuple[Entry, ...] = ()
    tokens: int = 0


ExportPart: TypeAlias = Entry | ExportedCompaction


ForeignFormat: TypeAlias = Literal["claude-code", "codex"]


def export_foreign(
    info: SessionInfo,
    timeline: Sequence[Entry | Compaction],
    form: ForeignFormat,
) -> Iterator[str]:
    """Yield a conversation as lines in the form of another agent.

    Args:
        info: the session.
        timeline: its entries, and the compactions between them, oldest first.
        form: the format.
    """
    export = export_claude_code if form == "claude-code" else export_codex
    lines = export(info, list_parts(timeline))
    return (f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def list_parts(timeline: Sequence[Entry | Compaction]) -> Iterator[ExportPart]:
    """Yield the parts of a conversation, given as for :func:`export_foreign`."""
    before: list[Entry] = []
    for item in timeline:
        if isinstance(item, Compaction):
            if item.trigger == "expand":
                continue
            places = (at for at in reversed(range(len(before))) if before[at].node_id == item.kept_from)
            first_kept = next(places, len(before))
            yield ExportedCompaction(
                id=item.compaction_id,
                summary=item.summary or "",
                kept=tuple(before[first_kept:]),
                tokens=item.pre_tokens,
            )
        elif item.kind == "summary":
            yield ExportedCompaction(id=item.node_id, summary=join_texts(item.turn.blocks, "\n\n"))
        else:
            before.append(item)
            yield item


def export_claude_code(info: SessionInfo, parts: Iterable[ExportPart]) -> Iterator[_Line]:
    """Yield the lines of a conversation in the form of Claude Code."""
    parent: str | None = None
    at_ms = info.created_at
    head = {"isSidechain": False, "userType": "external", "cwd": info.cwd, "version": _VERSION}
    head |= {"sessionId": as_uuid(info.sid), "gitBranch": ""}
    for part in parts:
        at_ms = part.created_at if isinstance(part, Entry) else at_ms
        key = part.node_id if isinstance(part, Entry) else part.id
        for number, body in enumerate(claude_lines(info, part)):
            uuid = as_uuid(f"{key}:{number}" if number else key)
            if body.get("subtype") == "compact_boundary":
                body["logicalParentUuid"], parent = parent, None
            yield {"parentUuid": parent, **head, **body, "uuid": uuid, "timestamp": as_time(at_ms)}
            parent = uuid
    if info.title:
        yield {"type": "summary", "summary": info.title, "leafUuid": parent}


def claude_lines(info: SessionInfo, part: ExportPart) -> Iterator[_Line]:
    """Yield the lines of one part, without the members that all lines share."""
    if isinstance(part, ExportedCompaction):
        metadata: _Line = {"trigger": "auto", "preTokens": part.tokens}
        if part.kept:
            first, last = as_uuid(part.kept[0].node_id), as_uuid(part.kept[-1].node_id)
            metadata["preservedSegment"] = {"headUuid": first, "tailUuid": last}
        text = "Conversation compacted"
        yield {
            "type": "system",
            "subtype": "compact_boundary",
            "content": text,
            "isMeta": False,
            "level": "info",
            "compactMetadata": metadata,
        }
        yield {
            "type": "user",
            "isCompactSummary": True,
            "isVisibleInTranscriptOnly": True,
            "message": {"role": "user", "content": part.summary},
        }
        return
    content = [each for block in part.turn.blocks if (each := claude_part(block)) is not None]
    if not content:
        return
    if part.kind == "assistant":
        is_call = any(each["type"] == "tool_use" for each in content)
        yield {
            "type": "assistant",
            "message": {
                "id": f"msg_{part.node_id[:24]}",
                "type": "message",
                "role": "assistant",
                "model": info.model,
                "content": content,
                "stop_reason": "tool_use" if is_call else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            },
        }
    else:
        is_host = {"isMeta": True} if part.kind in ("file", "note") else {}
        yield {"type": "user", **is_host, "message": {"role": "user", "content": content}}


def claude_part(block: Block) -> _Line | None:
    """Return a block as a part of a message of Claude Code, None for one that is left out.

    >>> claude_part(ToolCallBlock("call:1", "ls", {}))
    {'type': 'tool_use', 'id': 'call_1', 'name': 'ls', 'input': {}}
    """
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ImageBlock(media_type=media, data_base64=data):
            return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
        case ToolCallBlock(id=call_id, name=name, input=arguments):
            arguments = arguments if isinstance(arguments, dict) else {"value": arguments}
            return {"type": "tool_use", "id": _plain_id(call_id), "name": name, "input": arguments}
        case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
            failed = {"is_error": True} if is_error else {}
            text = output_text(output)
            return {"type": "tool_result", "tool_use_id": _plain_id(call_id), "content": text, **failed}
        case CommandBlock(command=command, args=arguments):
            text = " ".join(arguments or ())
            tags = f"<command-name>/{command}</command-name>\n<command-args>{text}</command-args>"
            return {"type": "text", "text": tags}
    return None


def export_codex(info: SessionInfo, parts: Iterable[ExportPart]) -> Iterator[_Line]:
    """Yield the lines of a conversation in the form of Codex."""
    at_ms = info.created_at
    started = {"id": as_uuid(info.sid), "timestamp": as_time(at_ms), "cwd": info.cwd}
    origin = {"originator": "sidecar", "cli_version": "0.0.0", "instructions": None, "source": "cli"}
    yield {"timestamp": as_time(at_ms), "type": "session_meta", "payload": {**started, **origin}}
    for part in parts:
        if isinstance(part, ExportedCompaction):
            history = [item for entry in part.kept for item in codex_items(entry)]
            payload: _Line = {"message": part.summary}
            if history:
                content = [{"type": "input_text", "text": part.summary}]
                payload["replacement_history"] = [
                    {"type": "message", "role": "user", "content": content},
                    *history,
                ]
            yield {"timestamp": as_time(at_ms), "type": "compacted", "payload": payload}
            continue
        at_ms = part.created_at
        for item in codex_items(part):
            yield {"timestamp": as_time(at_ms), "type": "response_item", "payload": item}
        text = join_texts(part.turn.blocks, "\n\n")
        if text and part.kind in ("user", "assistant"):
            kind = "user_message" if part.kind == "user" else "agent_message"
            shown = {"type": kind, "message": text}
            yield {"timestamp": as_time(at_ms), "type": "event_msg", "payload": shown}
    if info.title:
        named = {"type": "thread_name_updated", "thread_name": info.title}
        yield {"timestamp": as_time(at_ms), "type": "event_msg", "payload": named}


def codex_items(entry: Entry) -> Iterator[_Line]:
    """Yield an entry as items of Codex: its texts and images as one message, then its calls or results."""
    role = "assistant" if entry.kind == "assistant" else "user"
    kind = "output_text" if role == "assistant" else "input_text"
    content: list[_Line] = []
    others: list[_Line] = []
    for block in entry.turn.blocks:
        match block:
            case TextBlock(text=text):
                content.append(
                    {
                        "type": kind,
                        "text": f"<user_action>\n{text}" if entry.kind in ("file", "note") else text,
                    }
                )
            case CommandBlock(command=command, args=arguments):
                content.append({"type": kind, "text": " ".join((f"/{command}", *(arguments or ())))})
            case ImageBlock(media_type=media, data_base64=data):
                content.append({"type": "input_image", "image_url": f"data:{media};base64,{data}"})
            case ToolCallBlock(id=call_id, name=name, input=arguments):
                text = json.dumps(arguments, ensure_ascii=False)
                call = {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}
                others.append(call)
            case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
                text = output_text(output)
                if is_error:
                    failed = {"output": text, "metadata": {"exit_code": 1, "duration_seconds": 0.0}}
                    text = json.dumps(failed, ensure_ascii=False)
                others.append({"type": "function_call_output", "call_id": call_id, "output": text})
    if content:
        yield {"type": "message", "role": role, "content": content}
    yield from others


def as_uuid(text: str) -> str:
    """Return *text* as a UUID: 32 hex digits as they are, anything else by a fixed rule.

    >>> as_uuid("0ed48b6ef87051cde314b35d61cb688c")
    '0ed48b6e-f870-51cd-e314-b35d61cb688c'
    """
    try:
        return str(UUID(hex=text))
    except ValueError:
        return str(uuid5(NAMESPACE_URL, f"sidecar:{text}"))


def as_time(at_ms: int) -> str:
    """Return a time as text, in UTC with milliseconds.

    >>> as_time(1500)
    '1970-01-01T00:00:01.500Z'
    """
    found = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")


def output_text(output: Any) -> str:
    """Return the output of a tool as text."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _plain_id(call_id: str) -> str:
    """Return an id in the letters that Anthropic's models accept."""
    return _NOT_IN_IDS.sub("_", call_id)


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

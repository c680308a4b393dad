"""pi: one JSON object a line, below ``agent/sessions/`` of its folder.

Newer files are a tree: each entry names its parent, and the newest entry ends the active path. After the user
went back, the next entry stands under an earlier one. Older files have no ids and are in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sidecar.importing.builder import ImportBuilder, ShownFile
from sidecar.importing.content import (
    Json,
    answer_blocks,
    as_mapping,
    as_text,
    flatten,
    parse_time,
    prompt_blocks,
)
from sidecar.llmgateway.contract import ToolCallBlock

_QUIET = frozenset({"thinking_level_change", "model_change", "label", "custom"})
_MOST_STEPS = 2_000
"""So many entries on the way up from a new one are looked at: parents may run in a circle."""

_CUT_MARKS = ("[Showing lines ", "more lines in file", "[Truncated", "Use offset=")


def is_pi(value: Json) -> bool:
    """Whether *value* is a line of pi."""
    record = as_mapping(value)
    message = as_mapping(record.get("message"))
    is_header = record.get("type") == "session" and ("cwd" in record or "version" in record)
    return is_header or (record.get("type") == "message" and "role" in message and "uuid" not in record)


def read_pi(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the lines of a session."""
    last = ""
    parents: dict[str, str] = {}
    calls: dict[str, Json] = {}
    places: list[int] = []
    for record in map(as_mapping, records):
        key, parent = as_text(record.get("id")), as_text(record.get("parentId"))
        kind = as_text(record.get("type"))
        if kind == "session":
            builder.id, builder.cwd = key, as_text(record.get("cwd")) or builder.cwd
            continue
        if key and key in parents:
            builder.note("duplicate")
            continue
        if parent and parent != last:
            go_back(builder, parents, parent)
        if key:
            parents[key], last = parent, key
        places.append(len(builder.path))
        at_ms = parse_time(record.get("timestamp"))
        if kind == "message":
            read_message(builder, as_mapping(record.get("message")), at_ms, key, calls)
        elif kind == "compaction":
            first = record.get("firstKeptEntryId", "")
            index = record.get("firstKeptEntryIndex")
            kept = builder.items_from(as_text(first)) if first else []
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(places):
                kept = builder.path[places[index] :]
            builder.fold(as_text(record.get("summary")), kept=kept, at_ms=at_ms, key=key)
        elif kind == "branch_summary":
            builder.note("hostText")
        elif kind == "custom_message":
            builder.file(flatten(record.get("content")), None, at_ms=at_ms)
        elif kind == "session_info":
            builder.title = as_text(record.get("name")) or builder.title
        elif kind not in _QUIET:
            builder.note("unknownItem")


def go_back(builder: ImportBuilder, parents: Mapping[str, str], parent: str) -> None:
    """Go back to the newest item above the new entry; a parent that is not known changes nothing."""
    steps = 0
    while builder.place_of(parent) is None and parent in parents and steps < _MOST_STEPS:
        parent, steps = parents[parent], steps + 1
    builder.rewind_to(parent)


def read_message(
    builder: ImportBuilder,
    message: Mapping[str, Json],
    at_ms: int | None,
    key: str,
    calls: dict[str, Json],
) -> None:
    content = message.get("content")
    match message.get("role"):
        case "user":
            builder.prompt(prompt_blocks(content), at_ms=at_ms, key=key)
        case "assistant":
            blocks = list(answer_blocks(content, builder.note))
            calls.update((block.id, block) for block in blocks if isinstance(block, ToolCallBlock))
            builder.answer(blocks, at_ms=at_ms, key=key)
        case "toolResult" | "tool_result":
            call_id = as_text(message.get("toolCallId"))
            builder.result(
                call_id,
                content,
                is_error=bool(message.get("isError")),
                shown=find_shown_file(calls.get(call_id), flatten(content)),
            )
        case "bashExecution":
            output = as_text(message.get("output")).rstrip("\n")
            command, code = as_text(message.get("command")), message.get("exitCode")
            builder.command(command, output, code, at_ms=at_ms, key=key)
        case _:
            builder.note("hostText")


def find_shown_file(call: Json, text: str) -> ShownFile | None:
    """Return the file that the result of a read shows; None for a part of one."""
    arguments = as_mapping(call.input) if isinstance(call, ToolCallBlock) and call.name == "read" else {}
    path = as_text(arguments.get("path")) or as_text(arguments.get("file_path"))
    is_part = "offset" in arguments or "limit" in arguments or any(mark in text[-300:] for mark in _CUT_MARKS)
    return None if not path or is_part or text.endswith("[image]") else ShownFile(path, text)

"""Gemini CLI: a document, or in newer versions lines, in ``tmp/<project>/chats/`` of its folder.

The lines are a log: a message with a known id replaces the earlier one, ``$set`` replaces members of the
document and with them all messages, ``$rewindTo`` cuts the conversation before a message. So the log is
folded into a document first. A call and its result are one object inside of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.importing.builder import ImportBuilder, ShownFile
from sidecar.importing.content import (
    Json,
    as_list,
    as_mapping,
    as_parts,
    as_text,
    flatten,
    image_block,
    parse_arguments,
    parse_time,
    typed_block,
)
from sidecar.llmgateway.contract import Block, TextBlock, ThinkingBlock, ToolCallBlock

_ANSWERS: Final = ("gemini", "model", "assistant")
_HOST: Final = re.compile(r"\s*<(?:session_context|system-reminder|hook_context)\b")
_FILES: Final = "--- Content from referenced files ---"
_FAILED: Final = re.compile(r"^Exit Code: (?!0\b)-?\d+", re.MULTILINE)
_CUT_MARKS: Final = ("[File content truncated", "IMPORTANT: The file content has been truncated")


def is_gemini_cli(value: Json) -> bool:
    """Whether *value* is a document or the first line of Gemini CLI."""
    record = as_mapping(value)
    return "projectHash" in record and "sessionId" in record


def read_gemini_cli(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the document or the lines of a session."""
    messages: dict[str, Mapping[str, Json]] = {}
    for record in map(as_mapping, records):
        builder.id = builder.id or as_text(record.get("sessionId"))
        change = as_mapping(record.get("$set"))
        listed = change.get("messages") if change else record.get("messages")
        if isinstance(listed, list):
            messages = {}
        if "$rewindTo" in record:
            n_before, key = len(messages), as_text(record["$rewindTo"])
            while key in messages:
                messages.popitem()
            builder.note("rewound", n_before - len(messages))
        for message in as_list(listed) or ([record] if "type" in record else []):
            message = as_mapping(message)
            messages[as_text(message.get("id")) or f"#{len(messages)}"] = message
        builder.title = as_text(change.get("summary") or record.get("summary")) or builder.title
        folders = as_list(change.get("directories") or record.get("directories"))
        builder.cwd = builder.cwd or as_text(next(iter(folders), ""))
    for key, message in messages.items():
        read_message(builder, message, key)


def read_message(builder: ImportBuilder, message: Mapping[str, Json], key: str) -> None:
    at_ms = parse_time(message.get("timestamp"))
    kind, content = as_text(message.get("type")), message.get("content")
    if kind == "user":
        read_prompt(builder, content, at_ms, key)
    elif kind in _ANSWERS:
        read_answer(builder, message, at_ms, key)
    elif kind in ("info", "error", "warning"):
        builder.note("hostText")
    else:
        builder.note("unknownItem")


def read_prompt(builder: ImportBuilder, content: Json, at_ms: int | None, key: str) -> None:
    blocks: list[Block] = []
    files: list[str] = []
    for part in as_parts(content):
        image, text = image_block(part), flatten(part)
        if image is not None:
            blocks.append(image)
        elif files or text.lstrip().startswith(_FILES):
            files.append(text)
        elif _HOST.match(text):
            builder.note("hostText")
        elif text.strip():
            blocks.append(typed_block(text))
    builder.prompt(blocks, at_ms=at_ms, key=key)
    if files:
        builder.file("".join(files), None, at_ms=at_ms)


def read_answer(builder: ImportBuilder, message: Mapping[str, Json], at_ms: int | None, key: str) -> None:
    thoughts = [as_mapping(each) for each in as_list(message.get("thoughts"))]
    texts = (f"**{each.get('subject', '')}**\n{flatten(each.get('description'))}" for each in thoughts)
    blocks: list[Block] = [ThinkingBlock("\n\n".join(texts)), TextBlock(flatten(message.get("content")))]
    calls = [as_mapping(each) for each in as_list(message.get("toolCalls"))]
    for each in calls:
        name = as_text(each.get("name")) or "tool"
        blocks.append(ToolCallBlock(as_text(each.get("id")), name, parse_arguments(each.get("args"))))
    builder.answer(blocks, at_ms=at_ms, key=key)
    for each in calls:
        if each.get("result") is not None or each.get("status") in ("success", "error", "cancelled"):
            read_result(builder, each)


def read_result(builder: ImportBuilder, call: Mapping[str, Json]) -> None:
    is_error = call.get("status") in ("error", "cancelled")
    texts: list[str] = []
    result = call.get("result")
    for part in result if isinstance(result, list) else [result]:
        response = as_mapping(as_mapping(as_mapping(part).get("functionResponse")).get("response"))
        is_error = is_error or "error" in response
        texts.append(flatten(response.get("error", response.get("output", response or part))))
    text = "\n".join(texts)
    arguments = as_mapping(call.get("args"))
    path = as_text(arguments.get("file_path")) or as_text(arguments.get("absolute_path"))
    is_whole = len(arguments) == 1 and not any(mark in text for mark in _CUT_MARKS)
    shown = ShownFile(path, text) if call.get("name") == "read_file" and path and is_whole else None
    is_error = is_error or (call.get("name") == "run_shell_command" and _FAILED.search(text) is not None)
    builder.result(as_text(call.get("id")), text, is_error=is_error, shown=shown)

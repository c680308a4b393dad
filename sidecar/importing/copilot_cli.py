"""GitHub Copilot CLI: events of one JSON object a line, in ``session-state/<id>/events.jsonl`` of its folder.

An answer carries its calls; their results come as events of their own, in the order in which the tools ended.
Messages of subagents name the call that started them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.importing.builder import ImportBuilder, Item, ShownFile
from sidecar.importing.content import (
    Json,
    as_list,
    as_mapping,
    as_text,
    flatten,
    image_block,
    parse_arguments,
    parse_time,
    typed_block,
)
from sidecar.llmgateway.contract import Block, TextBlock, ThinkingBlock, ToolCallBlock

_NUMBERED: Final = re.compile(r"(\d+)\. ?(.*)")


def is_copilot_cli(value: Json) -> bool:
    """Whether *value* is an event of Copilot CLI."""
    record = as_mapping(value)
    return "data" in record and "." in as_text(record.get("type"))


def read_copilot_cli(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the events of a session."""
    reader = _Reader(builder)
    for record in map(as_mapping, records):
        reader.read(as_text(record.get("type")), as_mapping(record.get("data")), record)


class _Reader:
    """The state of one session: the calls of the agent and of its subagents, and the open compaction."""

    def __init__(self, builder: ImportBuilder) -> None:
        self._builder = builder
        self._calls: dict[str, ToolCallBlock] = {}
        self._foreign: set[str] = set()
        self._compacted: list[Item] | None = None

    def read(self, kind: str, data: Mapping[str, Json], record: Mapping[str, Json]) -> None:
        """Read one event."""
        builder, key = self._builder, as_text(record.get("id"))
        at_ms = parse_time(record.get("timestamp"))
        match kind:
            case "session.start" | "session.resume":
                builder.id = builder.id or as_text(data.get("sessionId"))
                builder.cwd = builder.cwd or as_text(as_mapping(data.get("context")).get("cwd"))
            case "user.message" if data.get("source") or data.get("parentToolCallId"):
                builder.note("hostText")
            case "user.message":
                images = (image_block(part) for part in as_list(data.get("attachments")))
                text = as_text(data.get("content"))
                blocks = [*filter(None, images), *([typed_block(text)] if text else [])]
                builder.prompt(blocks, at_ms=at_ms, key=key)
            case "assistant.message":
                self.read_answer(data, at_ms, key)
            case "tool.execution_complete":
                self.read_result(data)
            case "session.compaction_start":
                self._compacted = list(builder.path)
            case "session.compaction_complete":
                self.read_compaction(data, at_ms, key)
            case "session.snapshot_rewind":
                builder.rewind_to(as_text(data.get("upToEventId")), before=True)
            case "session.title_changed":
                builder.title = as_text(data.get("title")) or builder.title
            case "system.message":
                builder.note("systemPrompt")
            case "system.notification":
                builder.note("hostText")

    def read_answer(self, data: Mapping[str, Json], at_ms: int | None, key: str) -> None:
        requests = [as_mapping(each) for each in as_list(data.get("toolRequests"))]
        if data.get("parentToolCallId"):
            self._foreign |= {as_text(each.get("toolCallId")) for each in requests}
            self._builder.note("subagent")
            return
        thinking = as_text(data.get("reasoningText"))
        self._builder.note("hiddenThinking", bool(data.get("reasoningOpaque")) and not thinking)
        blocks: list[Block] = [ThinkingBlock(thinking), TextBlock(flatten(data.get("content")))]
        for each in requests:
            call_id, name = as_text(each.get("toolCallId")), as_text(each.get("name")) or "tool"
            call = ToolCallBlock(call_id, name, parse_arguments(each.get("arguments")))
            self._calls[call_id] = call
            blocks.append(call)
        self._builder.answer(blocks, at_ms=at_ms, key=key)

    def read_result(self, data: Mapping[str, Json]) -> None:
        call_id = as_text(data.get("toolCallId"))
        if call_id in self._foreign or (data.get("parentToolCallId") and call_id not in self._calls):
            return
        if data.get("success", True):
            text = flatten(as_mapping(data.get("result")).get("content"))
            shown = find_shown_file(self._calls.get(call_id), text)
            self._builder.result(call_id, text, shown=shown)
        else:
            error = data.get("error") or data.get("result")
            message = as_mapping(error).get("message") or error
            self._builder.result(call_id, message, is_error=True)

    def read_compaction(self, data: Mapping[str, Json], at_ms: int | None, key: str) -> None:
        """Fold everything that stood when the compaction began; it runs beside the conversation."""
        if data.get("success") is False:
            return
        folded = set(map(id, self._builder.path if self._compacted is None else self._compacted))
        kept = [item for item in self._builder.path if id(item) not in folded]
        summary = as_text(data.get("summaryContent")) or as_text(data.get("summary"))
        self._builder.fold(summary, kept=kept, at_ms=at_ms, key=key)
        self._compacted = None


def find_shown_file(call: ToolCallBlock | None, text: str) -> ShownFile | None:
    """Return the file that the result of ``view`` shows whole, without its line numbers."""
    arguments = as_mapping(call.input) if call is not None and call.name == "view" else {}
    path = as_text(arguments.get("path"))
    found = [_NUMBERED.fullmatch(line) for line in text.split("\n")] if path else []
    lines = [(int(line[1]), line[2]) for line in found if line is not None]
    is_whole = bool(lines) and [number for number, _ in lines] == list(range(1, len(found) + 1))
    return (
        None
        if not is_whole or arguments.get("view_range")
        else ShownFile(path, "\n".join(t for _, t in lines))
    )

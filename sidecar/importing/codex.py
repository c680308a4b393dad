"""Codex: rollouts of one JSON object a line, below ``sessions/`` of its folder.

The conversation is in the ``response_item`` lines; the events beside them repeat it for the screen. An answer
ends where a result, a prompt or a count of tokens comes. The summary of a compaction is encrypted in newer
versions; then the whole conversation stays. Older rollouts have bare items without an envelope.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from sidecar.importing.builder import ImportBuilder, Item
from sidecar.importing.content import (
    Json,
    as_list,
    as_mapping,
    as_parts,
    as_text,
    flatten,
    image_block,
    parse_arguments,
    parse_json_text,
    parse_time,
    typed_block,
)
from sidecar.llmgateway.contract import Block, TextBlock, ThinkingBlock, ToolCallBlock, join_texts

_HOST: Final = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|turn_aborted|permissions|app-context|skill|user_action"
    r"|subagent_notification|user_shell_command|INSTRUCTIONS)\b|# AGENTS\.md instructions)"
)
_FAILED: Final = re.compile(
    r"(?:Process exited with code|Exit code:) (?!0\b)-?\d+|^Script (?:failed|error)|^execution error"
    r"|apply_patch verification failed",
    re.MULTILINE,
)
_ENVELOPES: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call", "mcp_tool_call", "tool_search_call")
_HEAD_CHARS: Final = 4000


def is_codex(value: Json) -> bool:
    """Whether *value* is a line of Codex."""
    record = as_mapping(value)
    is_bare = record.get("type") in ("function_call", "function_call_output", "reasoning")
    is_wrapped = record.get("type") in _ENVELOPES and "payload" in record
    return is_wrapped or (is_bare and "uuid" not in record)


def read_codex(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the lines of a rollout."""
    reader = _Reader(builder)
    for record in map(as_mapping, records):
        payload = as_mapping(record.get("payload"))
        at_ms = parse_time(record.get("timestamp"))
        match record.get("type"):
            case "session_meta":
                builder.id = builder.id or as_text(payload.get("id"))
                builder.cwd = builder.cwd or as_text(payload.get("cwd"))
            case "turn_context":
                builder.cwd = builder.cwd or as_text(payload.get("cwd"))
            case "response_item":
                reader.read_item(payload, at_ms)
            case "compacted":
                reader.read_compaction(payload, at_ms)
            case "event_msg":
                reader.read_event(payload)
            case "world_state" | "session_state":
                pass
            case None if "instructions" in record or "git" in record:
                builder.id = builder.id or as_text(record.get("id"))
            case _ if "payload" not in record and record.get("record_type") is None:
                reader.read_item(record, at_ms)


class _Reader:
    """The state of one rollout: the number of the answer that is open."""

    def __init__(self, builder: ImportBuilder) -> None:
        self._builder = builder
        self._n_answers = 0

    def read_item(self, item: Mapping[str, Json], at_ms: int | None) -> None:
        """Read an item of the conversation."""
        kind, builder = as_text(item.get("type")), self._builder
        if kind == "message":
            self.read_message(item, at_ms)
        elif kind == "reasoning":
            text = "\n\n".join(filter(None, (flatten(item.get("summary")), flatten(item.get("content")))))
            if text.strip():
                self._answer(ThinkingBlock(text), at_ms)
            else:
                builder.note("hiddenThinking")
        elif kind in _CALLS:
            self._answer(parse_call(item), at_ms)
        elif kind.endswith("_output"):
            output, is_error = parse_output(item.get("output", item.get("tools")))
            builder.result(as_text(item.get("call_id")), output, is_error=is_error)
            self._n_answers += 1
        elif kind in ("compaction", "compaction_summary", "context_compaction"):
            builder.fold(flatten(item.get("summary")), at_ms=at_ms)
        elif kind in ("web_search_call", "image_generation_call"):
            builder.note("hostedCall")
        else:
            builder.note("unknownItem")

    def read_compaction(self, payload: Mapping[str, Json], at_ms: int | None) -> None:
        """Read a compaction; the messages that it carries on stay in view."""
        self._builder.fold(
            as_text(payload.get("message")), kept=find_carried(self._builder.path, payload), at_ms=at_ms
        )
        self._n_answers += 1

    def read_event(self, event: Mapping[str, Json]) -> None:
        """Read an event; two kinds of them change the conversation."""
        if event.get("type") == "token_count":
            self._n_answers += 1
        elif event.get("type") == "thread_rolled_back":
            n_turns = event.get("num_turns")
            if isinstance(n_turns, int) and n_turns > 0:
                path = self._builder.path
                prompts = (index for index in reversed(range(len(path))) if path[index].kind == "user")
                self._builder.rewind(min(islice(prompts, min(n_turns, len(path))), default=0))
        elif event.get("type") == "thread_name_updated":
            self._builder.title = as_text(event.get("thread_name")) or self._builder.title

    def read_message(self, item: Mapping[str, Json], at_ms: int | None) -> None:
        role, content = item.get("role"), item.get("content")
        if role == "assistant":
            self._answer(TextBlock(flatten(content)), at_ms)
        elif role == "user":
            blocks: list[Block] = []
            for part in as_parts(content):
                image, text = image_block(part), flatten(part)
                if image is not None:
                    blocks.append(image)
                elif _HOST.match(text):
                    self._builder.note("hostText")
                elif text.strip():
                    blocks.append(typed_block(text))
            self._builder.prompt(blocks, at_ms=at_ms)
            self._n_answers += 1
        else:
            self._builder.note("systemPrompt")

    def _answer(self, block: Block, at_ms: int | None) -> None:
        self._builder.answer([block], at_ms=at_ms, group=self._n_answers)


def find_carried(path: Sequence[Item], payload: Mapping[str, Json]) -> Iterator[Item]:
    """Yield the messages of *path* that a compaction carries on, the newest first.

    Of several messages with one text as many as are carried: else each further compaction would look at all
    that stayed before.
    """
    carried = [as_mapping(item) for item in as_list(payload.get("replacement_history"))]
    texts = Counter((as_text(item.get("role")), flatten(item.get("content"))) for item in carried)
    calls = {as_text(item.get("call_id")) for item in carried if as_text(item.get("type")) in _CALLS}
    for item in reversed(path):
        named = (item.kind, join_texts(item.blocks, "\n"))
        if texts[named] > 0 or any(call.id in calls for call in item.calls):
            texts[named] -= 1
            yield item


def parse_call(item: Mapping[str, Json]) -> ToolCallBlock:
    """Return a call of any of the kinds; the input of a custom tool is text."""
    kind = item.get("type")
    call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
    if kind == "custom_tool_call":
        return ToolCallBlock(call_id, as_text(item.get("name")) or "custom", {"input": item.get("input")})
    name = as_text(item.get("name")) or ("shell" if kind == "local_shell_call" else as_text(kind))
    return ToolCallBlock(call_id, name, parse_arguments(item.get("arguments", item.get("action"))))


def parse_output(value: Json) -> tuple[Json, bool]:
    """Return the content of a result, and whether the call failed.

    >>> parse_output('{"output": "no such file", "metadata": {"exit_code": 1}}')
    ('no such file', True)
    """
    parsed = parse_json_text(value) if isinstance(value, str) and value.startswith("{") else value
    is_error = False
    if isinstance(parsed, Mapping) and "output" in parsed:
        is_error = bool(as_mapping(parsed.get("metadata")).get("exit_code"))
        value = parsed["output"]
    elif isinstance(value, Mapping):
        is_error = value.get("success") is False
        value = value.get("content", value)
    return value, is_error or _FAILED.search(flatten(value)[:_HEAD_CHARS]) is not None

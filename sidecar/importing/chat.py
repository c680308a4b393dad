"""Messages in the forms of the providers' chat interfaces, and Cline, which stores just these.

A conversation is a list of messages with a role. A call is a part of type ``tool_use`` or stands in
``tool_calls``; a result is a part of type ``tool_result`` or a message of the role ``tool``. Older versions
of Cline write calls as tags into an answer and the result as text into the next prompt. SWE-agent names the
call of an answer as its ``action``, and the next message is the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sidecar.importing.builder import ImportBuilder, ShownFile
from sidecar.importing.content import (
    Json,
    answer_blocks,
    as_list,
    as_mapping,
    as_parts,
    as_text,
    flatten,
    image_block,
    is_image,
    parse_arguments,
    parse_time,
    typed_block,
)
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock

_LISTS: Final = ("messages", "history", "traj", "conversation")
_HOST: Final = re.compile(
    r"<(environment_details|explicit_instructions|system-reminder)\b.*?</\1>", re.DOTALL
)
_TYPED: Final = re.compile(r"<(task|feedback|answer|user_message|new_message)>\n?(.*?)\n?</\1>", re.DOTALL)
_TAGGED_CALL: Final = re.compile(r"<([a-z]+(?:_[a-z]+)+)>((?:\s*<(\w+)>.*?</\3>)*)\s*</\1>\s*\Z", re.DOTALL)
_TAGGED_ARGUMENT: Final = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)
_TAGGED_RESULT: Final = re.compile(r"\[(\w+)[^\n]*\] Result:")


def is_cline(value: Json) -> bool:
    """Whether *value* is a session of Cline's newer kind; the older kind is known by its file's name."""
    record = as_mapping(value)
    return "messages" in record and "agent" in record and "sessionId" in record


def is_chat(record: Json) -> bool:
    """Whether *record* is a message, or holds or is a list of messages."""
    return any(True for _ in find_lists(record)) or "role" in as_mapping(record)


def find_lists(record: Json) -> Iterable[Sequence[Json]]:
    """Yield the lists of messages in *record*."""
    if isinstance(record, list):
        if any("role" in as_mapping(each) for each in record[:3]):
            yield record
        else:
            yield from (found for each in record if isinstance(each, Mapping) for found in find_lists(each))
        return
    for name in _LISTS:
        found = as_list(as_mapping(record).get(name))
        if any("role" in as_mapping(each) for each in found[:3]):
            yield found
            return


def read_chat(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read messages: a list of them, documents with such lists, or one message a line."""
    reader = _Reader(builder)
    for record in records:
        holder = as_mapping(record)
        builder.id = builder.id or as_text(holder.get("sessionId")) or as_text(holder.get("id"))
        builder.note("systemPrompt", bool(holder.get("system_prompt")))
        lists = list(find_lists(record)) or ([[record]] if "role" in holder else [])
        if not lists:
            builder.note("unknownItem")
        for messages in lists:
            for message in messages:
                reader.read(as_mapping(message))


class _Reader:
    """The state of one conversation: the call without an id of its own that waits for its result."""

    def __init__(self, builder: ImportBuilder) -> None:
        self._builder = builder
        self._tagged: ToolCallBlock | None = None
        self._acted: str | None = None
        self._n_tagged = 0

    def read(self, message: Mapping[str, Json]) -> None:
        """Read one message."""
        at_ms = parse_time(message.get("ts", message.get("timestamp")))
        key, content = as_text(message.get("id")), message.get("content")
        match message.get("role"):
            case "system" | "developer":
                self._builder.note("systemPrompt")
            case "assistant":
                self.read_answer(message, at_ms, key)
            case "tool":
                ids = as_list(message.get("tool_call_ids")) or [
                    message.get("tool_call_id", message.get("id"))
                ]
                self._builder.result(
                    as_text(next(iter(ids), "")), content, is_error=bool(message.get("error"))
                )
            case "user":
                if self._acted is None:
                    self.read_prompt(as_parts(content), at_ms, key)
                else:
                    self._builder.result(self._acted, content)
                    self._acted = None
            case _:
                self._builder.note("unknownItem")

    def read_answer(self, message: Mapping[str, Json], at_ms: int | None, key: str) -> None:
        blocks = list(answer_blocks(message.get("content"), self._builder.note))
        for call in map(as_mapping, as_list(message.get("tool_calls"))):
            function = as_mapping(call.get("function")) or call
            arguments = parse_arguments(function.get("arguments"))
            blocks.append(
                ToolCallBlock(as_text(call.get("id")), as_text(function.get("name")) or "tool", arguments)
            )
        action = as_text(message.get("action")).strip()
        self._tagged, self._acted = None, None
        if not any(isinstance(block, ToolCallBlock) for block in blocks):
            self._tagged = self.take_tagged_call(blocks)
            if action:
                self._n_tagged += 1
                self._acted = f"action_{self._n_tagged}"
                blocks.append(ToolCallBlock(self._acted, action.split()[0], {"command": action}))
        self._builder.answer([*blocks, *filter(None, [self._tagged])], at_ms=at_ms, key=key)

    def take_tagged_call(self, blocks: list[Block]) -> ToolCallBlock | None:
        """Take the call that ends the last text as tags out of it."""
        last = blocks[-1] if blocks else None
        found = _TAGGED_CALL.search(last.text) if isinstance(last, TextBlock) else None
        if found is None or not isinstance(last, TextBlock):
            return None
        self._n_tagged += 1
        blocks[-1] = TextBlock(last.text[: found.start()].rstrip())
        return ToolCallBlock(f"tag_{self._n_tagged}", found[1], dict(_TAGGED_ARGUMENT.findall(found[2])))

    def read_prompt(self, parts: Iterable[Json], at_ms: int | None, key: str) -> None:
        blocks: list[Block] = []
        files: list[Mapping[str, Json]] = []
        result: list[str] = []
        for part in map(as_mapping, parts):
            if part.get("type") == "tool_result":
                call_id = as_text(part.get("tool_use_id"))
                self._builder.result(call_id, part.get("content"), is_error=bool(part.get("is_error")))
            elif part.get("type") == "file":
                files.append(part)
            elif (image := image_block(part)) is not None:
                blocks.append(image)
            elif is_image(part):
                self._builder.note("unknownItem")
            else:
                blocks += self.find_typed(flatten(part), result)
        if self._tagged is not None and result:
            self._builder.result(self._tagged.id, "\n".join(result))
        self._tagged = None
        self._builder.prompt(blocks, at_ms=at_ms, key=key)
        for file in files:
            path, text = as_text(file.get("path")), as_text(file.get("content"))
            self._builder.file(f"<file path={path}>\n{text}", ShownFile(path, text), at_ms=at_ms)

    def find_typed(self, text: str, result: list[str]) -> list[Block]:
        """Return a text under the user's role as blocks; the result of a call by tags goes to *result*."""
        without, n_host = _HOST.subn("", text)
        self._builder.note("hostText", n_host)
        if self._tagged is not None and (result or _TAGGED_RESULT.match(without)):
            typed = [found[2] for found in _TYPED.finditer(without)]
            result.append(without.strip())
            return [typed_block(each) for each in typed if each.strip()]
        whole = _TYPED.fullmatch(without.strip())
        kept = whole[2] if whole else (without.strip() if n_host else without)
        return [typed_block(kept)] if kept.strip() else []

"""Claude Code: one JSON object a line, below ``projects/`` of its folder, one file a session.

An answer is written in pieces under one message id, each with one block. Lines form a tree by
``parentUuid``, but results of parallel calls hang beside each other in it, so the order of the file counts.
Only a prompt that takes an earlier prompt's place in the tree shows that the user went back. A compaction is
a boundary line and a summary with the user's role.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.importing.builder import ImportBuilder, Item, ShownFile
from sidecar.importing.content import (
    Json,
    answer_blocks,
    as_mapping,
    as_parts,
    as_text,
    flatten,
    image_block,
    is_image,
    parse_time,
    typed_block,
)
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock

_TAG: Final = r"\s*<{0}>(.*?)</{0}>"
_COMMAND: Final = re.compile(_TAG.format("command-name"), re.DOTALL)
_ARGUMENTS: Final = re.compile(_TAG.format("command-args"), re.DOTALL)
_SHELL: Final = re.compile(_TAG.format("bash-input"), re.DOTALL)
_MEMORY: Final = re.compile(_TAG.format("user-memory-input"), re.DOTALL)
_SHELL_OUTPUT: Final = re.compile(r"</?bash-std(?:out|err)>")
_HOST: Final = re.compile(
    r"\s*(?:<(?:local-command-\w+|system-reminder|ide_\w+|task-notification|session-start-hook)\b"
    r"|\[Request interrupted by user)"
)
_NOT_PROMPTS: Final = ("/", '{"task_id"', "<task-notification>")
"""Beginnings of entries of the queue that are no prompts: a command has a line of its own."""

_QUIET: Final = frozenset(
    {
        "agent-name",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "tag",
    }
)
"""Lines about the program, with nothing of the conversation in them."""

_MOST_STEPS: Final = 2_000
"""So many lines on the way up from a prompt are looked at: results, progress and the like."""


def is_claude_code(value: Json) -> bool:
    """Whether *value* is a line of Claude Code."""
    record = as_mapping(value)
    kind = record.get("type")
    return (
        "parentUuid" in record
        or (kind == "summary" and "leafUuid" in record)
        or kind == "file-history-snapshot"
        or (kind in ("user", "assistant", "queue-operation", "permission-mode") and "sessionId" in record)
    )


def read_claude_code(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the lines of a session."""
    reader = _Reader(builder)
    for record in records:
        reader.read(as_mapping(record))
    reader.end()


class _Reader:
    """The state of one file: the lines that were read, the prompts that wait, the open compaction."""

    def __init__(self, builder: ImportBuilder) -> None:
        self._builder = builder
        self._seen: dict[str, str] = {}
        self._calls: set[str] = set()
        self._preserved: Mapping[str, Json] = {}
        self._titles: dict[str, str] = {}
        self._waiting: deque[str] = deque()
        self._sent: Counter[tuple[str, str]] = Counter()

    def read(self, record: Mapping[str, Json]) -> None:
        """Read one line."""
        builder, kind, uuid = self._builder, as_text(record.get("type")), as_text(record.get("uuid"))
        builder.id = builder.id or as_text(record.get("sessionId"))
        builder.cwd = builder.cwd or as_text(record.get("cwd"))
        if uuid and uuid in self._seen:
            builder.note("duplicate")
            return
        if uuid:
            self._seen[uuid] = as_text(record.get("parentUuid"))
        message = as_mapping(record.get("message"))
        if record.get("isSidechain") and message:
            builder.note("subagent")
        elif kind == "assistant":
            self.read_answer(record, message)
        elif kind == "user":
            self.read_user_line(record, message)
        elif kind == "system":
            if record.get("subtype") == "compact_boundary":
                metadata = as_mapping(record.get("compactMetadata"))
                self._preserved = as_mapping(metadata.get("preservedSegment"))
        elif kind == "queue-operation":
            self.read_queue(record)
        elif kind == "attachment":
            attachment = as_mapping(record.get("attachment"))
            if attachment.get("type") == "queued_command":
                self.send_once("attachment", flatten(attachment.get("prompt")), record)
        elif kind == "summary":
            self._titles[as_text(record.get("leafUuid"))] = as_text(record.get("summary"))
        elif kind in ("custom-title", "ai-title"):
            found = (record.get(name) for name in ("customTitle", "aiTitle", "title"))
            builder.title = next(filter(None, map(as_text, found)), builder.title)
        elif kind not in _QUIET:
            builder.note("unknownItem")

    def end(self) -> None:
        """Take the title of this conversation, for a file may hold several, and count unsent prompts."""
        titles = (title for leaf, title in self._titles.items() if leaf in self._seen)
        self._builder.title = self._builder.title or next(titles, "")
        self.drop_waiting()

    def drop_waiting(self) -> None:
        """Count the prompts that wait, and forget them."""
        unsent = [text for text in self._waiting if not text.startswith(_NOT_PROMPTS)]
        self._builder.note("unsentPrompt", len(unsent))
        self._waiting.clear()

    def read_queue(self, record: Mapping[str, Json]) -> None:
        """Read a change of the queue of prompts that were typed while the model was at work.

        A prompt that leaves the queue by ``remove`` was sent in the middle of the turn, and newer versions
        repeat it as an attachment. One that leaves it otherwise has a line of its own, or was taken back.
        """
        operation, text = record.get("operation"), as_text(record.get("content"))
        if operation == "enqueue":
            self._waiting.append(text)
        elif operation == "popAll":
            self.drop_waiting()
        elif operation in ("remove", "dequeue") and self._waiting:
            sent = self._waiting.popleft()
            if operation == "remove" and not sent.startswith(_NOT_PROMPTS):
                self.send_once("queue", sent, record)

    def send_once(self, source: str, text: str, record: Mapping[str, Json]) -> None:
        """Add a prompt that was sent in the middle of a turn, unless the other source has added it."""
        other = ("attachment" if source == "queue" else "queue", text)
        if self._sent[other]:
            self._sent[other] -= 1
            return
        self._sent[source, text] += 1
        at_ms, key = parse_time(record.get("timestamp")), as_text(record.get("uuid"))
        self._builder.prompt(self.find_typed(text), at_ms=at_ms, key=key)

    def read_answer(self, record: Mapping[str, Json], message: Mapping[str, Json]) -> None:
        blocks = []
        for block in answer_blocks(message.get("content"), self._builder.note):
            if isinstance(block, ToolCallBlock) and block.id in self._calls:
                self._builder.note("duplicate")
                continue
            if isinstance(block, ToolCallBlock):
                self._calls.add(block.id)
            blocks.append(block)
        if blocks:
            self._builder.answer(
                blocks,
                at_ms=parse_time(record.get("timestamp")),
                key=as_text(record.get("uuid")),
                group=as_text(message.get("id")) or None,
            )

    def read_user_line(self, record: Mapping[str, Json], message: Mapping[str, Json]) -> None:
        builder, content = self._builder, message.get("content")
        at_ms, key = parse_time(record.get("timestamp")), as_text(record.get("uuid"))
        if record.get("isCompactSummary"):
            builder.fold(flatten(content), kept=self.find_kept(), at_ms=at_ms, key=key)
            self._preserved = {}
            return
        blocks: list[Block] = []
        for part in map(as_mapping, as_parts(content)):
            if part.get("type") == "tool_result":
                builder.result(
                    as_text(part.get("tool_use_id")),
                    part.get("content"),
                    is_error=bool(part.get("is_error")),
                    shown=find_shown_file(record.get("toolUseResult")),
                )
            elif (image := image_block(part)) is not None:
                blocks.append(image)
            elif is_image(part):
                builder.note("unknownItem")
            elif record.get("isMeta"):
                builder.note("hostText")
            else:
                blocks += self.find_typed(flatten(part))
        if blocks:
            self.go_back(as_text(record.get("parentUuid")))
            builder.prompt(blocks, at_ms=at_ms, key=key)

    def find_typed(self, text: str) -> list[Block]:
        """Return a text under the user's role as blocks, without the marks of the program around it."""
        if command := _COMMAND.search(text) if text.lstrip().startswith("<command-") else None:
            arguments = _ARGUMENTS.search(text)
            return [typed_block(f"{command[1].strip()} {arguments[1] if arguments else ''}".strip())]
        if shell := _SHELL.match(text):
            return [TextBlock(f"$ {shell[1]}")]
        if memory := _MEMORY.match(text):
            return [TextBlock(f"# {memory[1].strip()}")]
        if text.lstrip().startswith(("<bash-stdout>", "<bash-stderr>")):
            output = _SHELL_OUTPUT.sub("", text).strip()
            return [TextBlock(output)] if output else []
        if _HOST.match(text):
            self._builder.note("hostText")
            return []
        return [typed_block(text)] if text.strip() else []

    def find_kept(self) -> list[Item]:
        """Return the items that the compaction left in view."""
        items = self._builder.items_from(as_text(self._preserved.get("headUuid")))
        last = as_text(self._preserved.get("tailUuid"))
        ends = [index for index, item in enumerate(items) if item.key == last]
        return items[: ends[0] + 1] if ends else items

    def go_back(self, parent: str) -> None:
        """Rewind where a prompt does not follow the newest message: an earlier prompt has its place.

        The way up from the new prompt leads to an item of the conversation. Where a prompt stands behind
        that item, the user had gone back before it.
        """
        place, steps = self._builder.place_of(parent), 0
        while parent and place is None and steps < _MOST_STEPS:
            parent, steps = self._seen.get(parent, ""), steps + 1
            place = self._builder.place_of(parent)
        if place is not None:
            path = self._builder.path
            # A prompt that was sent in the middle of a turn stands in no tree and has no key.
            newer = (path[index] for index in range(len(path) - 1, place, -1))
            if any(item.kind == "user" and item.key for item in newer):
                self._builder.rewind(place + 1)


def find_shown_file(result: Json) -> ShownFile | None:
    """Return the file that a result shows whole, None for a part of one and for other results."""
    file = as_mapping(as_mapping(result).get("file"))
    path, text = file.get("filePath"), file.get("content")
    is_whole = file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines")
    if not isinstance(path, str) or not isinstance(text, str) or not is_whole:
        return None
    return ShownFile(path, text)

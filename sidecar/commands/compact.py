"""``sidecar compact FILE``: condense a conversation in a file, without a daemon and without a model.

It reads a stored session or a JSON array of chat messages, and does not change the file. The condensed turns
go to standard output, and a report to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.commands.terminal import Screen
from sidecar.commands.views import show_change
from sidecar.commands.with_daemon import print_json
from sidecar.conductor.session_ops import (
    compact_messages,
    messages_to_turns,
    turns_to_messages,
)
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CostSheet,
    ModelCard,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.store import SessionStore, heal, turn_to_record
from sidecar.window_budget import (
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    BudgetRequest,
    Message,
    UserMessage,
    estimate_message_tokens,
)

_KINDS: Final = ("prompts", "answers", "tool results", "digest", "restored files")
"""The kinds of messages in the table of sizes."""

_REASONS: Final = {
    "nothingToDrop": "it is too short to condense",
    "wouldNotShrink": "the result would not be smaller",
    "overheadTooLarge": "the window is too small to leave anything in it; choose a larger --window",
}


class UnreadableConversationError(Exception):
    """The file is neither a stored session nor chat messages; the message is for the user."""


def run(options: argparse.Namespace) -> int:
    """Condense the file and return the exit code: 0 when it was condensed, 3 when nothing was to do."""
    notes, file = Screen(sys.stderr), Path(options.file).expanduser()
    try:
        turns = read_turns(file)
    except OSError as error:
        notes.problem(f"sidecar compact: cannot read {options.file}: {error.strerror}")
        return 2
    except UnreadableConversationError as error:
        notes.problem(f"sidecar compact: {options.file} is not a conversation: {error}")
        return 2
    return asyncio.run(_condense(turns, options, notes))


def read_turns(file: Path) -> tuple[Turn, ...]:
    """Return the conversation in *file*. Raises UnreadableConversationError, OSError."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.lstrip().startswith("["):
        try:
            messages = json.loads(text)
        except ValueError as error:
            raise UnreadableConversationError(f"it is not valid JSON: {error}") from None
        turns = [turn for message in _objects(messages) for turn in parse_message(message)]
        if not turns:
            raise UnreadableConversationError("the array has no chat messages with role and content")
        return heal(tuple(turns))
    store = SessionStore(file.parent)
    stored = asyncio.run(store.journal(file.stem).load()) if file.suffix == ".jsonl" else ()
    if not stored:
        raise UnreadableConversationError(
            "it is neither a stored session (.jsonl) nor a JSON array of chat messages"
        )
    return tuple(stored)


async def _condense(turns: Sequence[Turn], options: argparse.Namespace, notes: Screen) -> int:
    messages = turns_to_messages(turns)
    notes.wait(f"condensing {len(turns):,} turns")
    await asyncio.sleep(0)
    card = ModelCard(
        "file",
        "none",
        "none",
        "the window given with --window",
        context_window=options.window,
        max_output_tokens=options.window // 8,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0, 0),
    )
    result = await compact_messages(messages, BudgetRequest(force=True, card=card))
    if result.noop is not None:
        found = f"{result.tokens_before:,} tokens in {len(turns):,} turns"
        notes.note(f"nothing done, {found}: {_REASONS.get(result.noop, result.noop)}")
        return 3
    if not options.preview:
        for turn in messages_to_turns(result.messages):
            print_json(turn_to_record(turn))
    show_change(notes, _tokens_by_kind(messages), _tokens_by_kind(result.messages))
    if result.dropped_count:
        notes.note(f"· {result.dropped_count:,} messages are now a digest, {result.kept_count:,} unchanged")
    if result.microcompacted or result.clipped:
        notes.note(f"· {result.microcompacted} stale results emptied, {result.clipped} long ones shortened")
    if result.restored:
        notes.note(f"· {len(result.restored)} files restored as they were read")
    if options.preview:
        notes.note("nothing was written; without --preview the condensed turns go to standard output")
    return 0


def _tokens_by_kind(messages: Sequence[Message]) -> dict[str, int]:
    """Return the tokens of *messages* for each of the kinds."""
    tokens = dict.fromkeys(_KINDS, 0)
    for message in messages:
        text = str(message.content) if isinstance(message, UserMessage) else ""
        if message.role == "compactionSummary" or text.startswith(DIGEST_HEADER):
            kind = "digest"
        elif text.startswith(RESTORED_FILE_PREFIX):
            kind = "restored files"
        else:
            kind = {"assistant": "answers", "toolResult": "tool results"}.get(message.role, "prompts")
        tokens[kind] += estimate_message_tokens(message)
    return tokens


def parse_message(message: Mapping[str, Any]) -> list[Turn]:
    """Return a chat message, in the form of the providers' APIs, as turns."""
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
    blocks = tuple(block for part in parts if (block := _parse_block(part)) is not None)
    match message.get("role"):
        case "assistant":
            calls = tuple(parse_call(call) for call in _objects(message.get("tool_calls")))
            return [AssistantTurn((*blocks, *calls))]
        case "tool":
            text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
            return [ToolTurn((ToolResultBlock(str(message.get("tool_call_id")), text),))]
        case "user":
            results = tuple(block for block in blocks if isinstance(block, ToolResultBlock))
            rest = tuple(block for block in blocks if not isinstance(block, ToolResultBlock))
            found: list[Turn] = [ToolTurn(results)] if results else []
            return [*found, UserTurn(rest)] if rest else found
    return []


def _parse_block(part: Mapping[str, Any]) -> Block | None:
    """Return a part of a message's content as a block, None for an unknown kind of part."""
    match part.get("type"):
        case "text":
            return TextBlock(str(part.get("text", "")))
        case "tool_use":
            return ToolCallBlock(str(part.get("id")), str(part.get("name")), part.get("input"))
        case "tool_result":
            output = part.get("content")
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            return ToolResultBlock(str(part.get("tool_use_id")), text, bool(part.get("is_error")))
    return None


def parse_call(call: Mapping[str, Any]) -> ToolCallBlock:
    """Return an entry of ``tool_calls`` as a block; arguments that are not JSON are kept as text."""
    function = call.get("function") or {}
    raw = function.get("arguments") or "{}"
    try:
        arguments = json.loads(raw)
    except ValueError:
        arguments = {"__unparsed": raw}
    return ToolCallBlock(str(call.get("id")), str(function.get("name")), arguments)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects in an array; empty for anything but an array."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []

"""``sidecar compact FILE``: a conversation in a file, condensed without a daemon and without a model.

Reads a session's file as the store keeps it, or a JSON array of chat messages; writes the condensed turns to
standard output, and what was done to standard error. The file is not changed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.commands.daemon import print_json
from sidecar.commands.sizes import show_change
from sidecar.commands.terminal import Screen
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
    BudgetResult,
    Message,
    UserMessage,
    estimate_message_tokens,
)

__all__ = ["NotReadable", "read_turns", "run"]

_KINDS: Final = ("prompts", "answers", "tool results", "digest", "restored files")
"""What the messages of a conversation are called."""

_WHY: Final = {
    "nothingToDrop": "it is too short to condense",
    "wouldNotShrink": "the result would not be smaller",
    "overheadTooLarge": "the window is too small to leave anything in it; choose a larger --window",
}


class NotReadable(Exception):
    """The file is neither a stored session nor chat messages; its text says what was found."""


def run(options: argparse.Namespace) -> int:
    """Condense the file and return 0 when there was something to do, 3 when there was not."""
    notes, file = Screen(sys.stderr), Path(options.file).expanduser()
    try:
        turns = read_turns(file)
    except OSError as error:
        notes.problem(f"sidecar compact: cannot read {options.file}: {error.strerror}")
        return 2
    except NotReadable as error:
        notes.problem(f"sidecar compact: {options.file} is no conversation: {error}")
        return 2
    return asyncio.run(_condense(turns, options, notes))


def read_turns(file: Path) -> tuple[Turn, ...]:
    """Return the conversation in *file*. Raises NotReadable, OSError."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.lstrip().startswith("["):
        return heal(_from_messages(_array(text)))
    store = SessionStore(file.parent)
    turns = asyncio.run(store.journal(file.stem).load()) if file.suffix == ".jsonl" else ()
    if not turns:
        raise NotReadable("neither a stored session (.jsonl) nor a JSON array of chat messages")
    return tuple(turns)


async def _condense(turns: Sequence[Turn], options: argparse.Namespace, notes: Screen) -> int:
    messages = turns_to_messages(turns)
    notes.wait(f"condensing {len(turns):,} turns")
    await asyncio.sleep(0)
    record = await compact_messages(messages, BudgetRequest(force=True, card=_card(options.window)))
    if record.noop is not None:
        found = f"{record.tokens_before:,} tokens in {len(turns):,} turns"
        notes.note(f"nothing done, {found}: {_WHY.get(record.noop, record.noop)}")
        return 3
    if not options.preview:
        for turn in messages_to_turns(record.messages):
            print_json(turn_to_record(turn))
    show_change(notes, _sizes(messages), _sizes(record.messages))
    for line in _said(record):
        notes.note(f"· {line}")
    if options.preview:
        notes.note("nothing was written; without --preview the condensed turns go to standard output")
    return 0


def _card(window: int) -> ModelCard:
    return ModelCard(
        "file",
        "none",
        "none",
        "a window of the user's",
        context_window=window,
        max_output_tokens=window // 8,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0, 0),
    )


def _sizes(messages: Sequence[Message]) -> dict[str, int]:
    """Return the tokens of *messages* by what they are."""
    sizes = dict.fromkeys(_KINDS, 0)
    for message in messages:
        sizes[_kind(message)] += estimate_message_tokens(message)
    return sizes


def _kind(message: Message) -> str:
    text = str(message.content) if isinstance(message, UserMessage) else ""
    if message.role == "compactionSummary" or text.startswith(DIGEST_HEADER):
        return "digest"
    if text.startswith(RESTORED_FILE_PREFIX):
        return "restored files"
    return {"assistant": "answers", "toolResult": "tool results"}.get(message.role, "prompts")


def _said(record: BudgetResult) -> Iterator[str]:
    if record.dropped_count:
        yield f"{record.dropped_count:,} messages are now a digest, {record.kept_count:,} stay as they are"
    if record.microcompacted or record.clipped:
        yield f"{record.microcompacted} stale results emptied, {record.clipped} long ones cut down"
    if record.restored:
        yield f"{len(record.restored)} files restored as they were read"


def _array(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise NotReadable(f"no JSON: {error}") from None
    return found if isinstance(found, list) else []


def _from_messages(messages: Sequence[Any]) -> tuple[Turn, ...]:
    """Return chat messages, as providers' APIs have them, as turns."""
    turns = [turn for message in messages if isinstance(message, Mapping) for turn in _turns(message)]
    if not turns:
        raise NotReadable("the array holds no chat messages with role and content")
    return tuple(turns)


def _turns(message: Mapping[str, Any]) -> list[Turn]:
    blocks = _blocks(message.get("content"))
    match message.get("role"):
        case "assistant":
            return [AssistantTurn((*blocks, *_calls(message.get("tool_calls"))))]
        case "tool":
            text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
            return [ToolTurn((ToolResultBlock(str(message.get("tool_call_id")), text),))]
        case "user":
            results = tuple(block for block in blocks if isinstance(block, ToolResultBlock))
            rest = tuple(block for block in blocks if not isinstance(block, ToolResultBlock))
            found: list[Turn] = [ToolTurn(results)] if results else []
            return [*found, UserTurn(rest)] if rest else found
    return []


def _blocks(content: Any) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (TextBlock(content),)
    parts = content if isinstance(content, list) else []
    return tuple(block for part in parts if isinstance(part, Mapping) and (block := _block(part)) is not None)


def _block(part: Mapping[str, Any]) -> Block | None:
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


def _calls(calls: Any) -> tuple[Block, ...]:
    found = calls if isinstance(calls, list) else []
    return tuple(_call(call) for call in found if isinstance(call, Mapping))


def _call(call: Mapping[str, Any]) -> Block:
    function = call.get("function") or {}
    raw = function.get("arguments") or "{}"
    try:
        arguments = json.loads(raw)
    except ValueError:
        arguments = {"__unparsed": raw}
    return ToolCallBlock(str(call.get("id")), str(function.get("name")), arguments)

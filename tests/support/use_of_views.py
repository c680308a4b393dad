"""The use of a view: the share of what a session touches later, and had touched before, that stands in it.

A view is the text that the model is sent after a compaction. Its items are strings that occur before the
compaction, and again in the calls and words of the agent in the next messages: files, identifiers, values,
commands and edited lines; and lines of errors that come again. A plain tail, the newest part of the
conversation in the same size, is the measure to beat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock

KINDS: Final = ("files", "identifiers", "values", "commands", "lines", "errors")

_FILE = re.compile(
    r"(?:[\w.@-]+/)+[\w.@-]+\.\w{1,8}|\b[\w-]+\.(?:py|tsx?|js|rs|go|java|cs|md|json|ya?ml|toml|sh|rb)\b"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{5,}")
_VALUE = re.compile(r"\b(?:[0-9a-f]{7,40}|https?://\S+|\d{3,6}|\d+\.\d+\.\d+)\b")
_ERROR = re.compile(r"(?im)^.*\b(?:error|exception|failed|failure|panic|cannot|undefined|not found)\b.*$")
_OLD_TEXT = ("old_string", "old_text", "oldText", "oldString", "old_str", "patch", "input")


def flat(value: Any) -> str:
    """Return the strings of a JSON value, one a line."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(map(flat, value.values()))
    return "\n".join(map(flat, value)) if isinstance(value, list | tuple) else str(value)


def text_of(entry: Entry) -> str:
    """Return everything that an entry shows to the model."""
    return "\n".join(_texts(entry))


def _texts(entry: Entry) -> Iterator[str]:
    for block in entry.turn.blocks:
        match block:
            case TextBlock(text=text):
                yield text
            case ToolCallBlock(name=name, input=given):
                yield f"{name} {flat(given)}"
            case ToolResultBlock(output=output):
                yield flat(output)
            case _:
                continue


def tail_within(entries: Sequence[Entry], chars: int) -> int:
    """Return how many entries there are before the newest ones that fit in *chars*."""
    start = len(entries)
    while start and len(text_of(entries[start - 1])) < chars:
        start -= 1
        chars -= len(text_of(entries[start])) + 1
    return start


def items_used(before: Sequence[Entry], after: Sequence[Entry], horizon: int) -> dict[str, set[str]]:
    """Return the items by kind that the next *horizon* entries use and that *before* holds."""
    known, future = "\n".join(map(text_of, before)), after[:horizon]
    calls = [
        block.input for entry in future for block in entry.turn.blocks if isinstance(block, ToolCallBlock)
    ]
    words = [block.text for entry in future if entry.kind == "assistant" for block in entry.turn.blocks
             if isinstance(block, TextBlock)]  # fmt: skip
    acts = "\n".join([*map(flat, calls), *words])
    given = [call for call in calls if isinstance(call, Mapping)]
    lines = (line for call in given for key in _OLD_TEXT for line in str(call.get(key) or "").split("\n"))
    commands = (part for call in given for part in re.split(r"\n|&&|;|\|\|", flat(call.get("command") or "")))
    errors = (line for entry in future for line in _ERROR.findall(text_of(entry)))
    found = {
        "files": {path for path in _FILE.findall(acts) if len(path) > 4},
        "identifiers": {word for word in _IDENTIFIER.findall(acts) if _is_joined(word)},
        "values": set(_VALUE.findall(acts)),
        "commands": {part.strip() for part in commands if 8 <= len(part.strip()) <= 160},
        "lines": {line.lstrip("-+ ").strip() for line in lines if len(line.lstrip("-+ ").strip()) >= 25},
        "errors": {line.strip() for line in errors if 20 <= len(line.strip()) <= 200},
    }
    return {kind: {item for item in items if item in known} for kind, items in found.items()}


def _is_joined(word: str) -> bool:
    return "_" in word.strip("_") or re.search(r"[a-z][A-Z]", word) is not None


def share_in_view(items: Mapping[str, set[str]], view: str) -> dict[str, float]:
    """Return the share of each kind of *items* that stands in *view*, and the mean over the kinds."""
    shares = {kind: sum(item in view for item in some) / len(some) for kind, some in items.items() if some}
    return shares | ({"mean": sum(shares.values()) / len(shares)} if shares else {})

"""Turns and prompts, as most tests need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sidecar.conductor.content import Content
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Conversation,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)


def user(*blocks: Block | str) -> UserTurn:
    """Return a prompt of *blocks*; a string is a text."""
    return UserTurn(tuple(TextBlock(block) if isinstance(block, str) else block for block in blocks))


def assistant(*blocks: Block | str) -> AssistantTurn:
    """Return an answer of *blocks*; a string is a text."""
    return AssistantTurn(tuple(TextBlock(block) if isinstance(block, str) else block for block in blocks))


def calling(*calls: ToolCallBlock) -> AssistantTurn:
    """Return an answer of tool calls alone."""
    return AssistantTurn(calls)


def calls(*ids: str) -> AssistantTurn:
    """Return an answer of calls of ``ls`` alone, with these *ids*."""
    return AssistantTurn(tuple(ToolCallBlock(each, "ls", {}) for each in ids))


def results(*ids: str) -> ToolTurn:
    """Return the results of the calls *ids*, each with a text of its own."""
    return ToolTurn(tuple(ToolResultBlock(each, f"of {each}", False) for each in ids))


def tool_call(call_id: str, name: str = "read", **arguments: Any) -> AssistantTurn:
    """Return an answer that calls the tool *name*."""
    return AssistantTurn((ToolCallBlock(call_id, name, arguments),))


def tool_result(call_id: str, output: Any = "ok", *, is_error: bool = False) -> ToolTurn:
    """Return the result of one call."""
    return ToolTurn((ToolResultBlock(call_id, output, is_error),))


def spell_turns(letters: str, size: int = 4) -> list[Turn]:
    """Return one turn of about *size* characters for each letter.

    ``u`` user, ``a`` assistant, ``c`` call, ``t`` its result, ``b`` two calls, ``p``, ``q`` their results.
    """
    turns: list[Turn] = []
    for index, letter in enumerate(letters):
        text = f"{letter}{index}".ljust(size, ".")
        match letter:
            case "u":
                turns.append(user(text))
            case "a":
                turns.append(assistant(text))
            case "c":
                turns.append(tool_call(f"c{index}", path=text))
            case "t":
                turns.append(tool_result(f"c{index - 1}", text))
            case "b":
                twins = (ToolCallBlock(f"{name}{index}", "read", {"path": text}) for name in "pq")
                turns.append(calling(*twins))
            case _:
                turns.append(tool_result(f"{letter}{letters.rindex('b', 0, index)}", text))
    return turns


def text(prompt: str) -> Content:
    """Return *prompt* as the content of a prompt, as clients send it."""
    return ({"type": "text", "text": prompt},)


def check_sound(sent: Conversation) -> None:
    """A user speaks first, and every call has its one result right behind it."""
    assert isinstance(sent.turns[0], UserTurn)
    assert check_whole(sent.turns) == []


def check_whole(turns: Iterable[Turn]) -> list[str]:
    """Every call has its one result right behind it; return the calls that still wait for theirs."""
    waiting: list[str] = []
    for turn in turns:
        found = [block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)]
        assert sorted(found) == sorted(waiting)
        waiting = [block.id for block in turn.blocks if isinstance(block, ToolCallBlock)]
    return waiting


def nest_lists(depth: int = 100_000) -> list[Any]:
    """Return a list in a list and so on, *depth* deep: by default deeper than Python can print."""
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


def texts(turns: Iterable[Turn]) -> list[str]:
    """Return the texts of *turns*, in order."""
    return [block.text for turn in turns for block in turn.blocks if isinstance(block, TextBlock)]

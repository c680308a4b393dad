"""The written form of the turns of a conversation, kept for the next call of its adapter.

A conversation grows at its end, and each call sends all of it. The turns that it began with the last time are
found by identity, at the price of a comparison each, and their written form goes out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from operator import is_
from typing import Any, Generic, TypeVar

from sidecar.llmgateway.contract import ToolCallBlock, Turn

T = TypeVar("T")


class TurnMemo(Generic[T]):
    """The results for the turns of one conversation, as they were at its last call."""

    def __init__(self) -> None:
        self._turns: tuple[Turn, ...] = ()
        self._results: list[T] = []

    def write(self, turns: Sequence[Turn], make: Callable[[int], T]) -> list[T]:
        """Return the result for each of *turns*; none of them may be changed.

        Args:
            turns: the turns of the conversation.
            make: makes the result for the turn at an index; not called where the earlier one holds.
        """
        n_same = sum(takewhile(bool, map(is_, turns, self._turns)))
        self._results = [*self._results[:n_same], *map(make, range(n_same, len(turns)))]
        self._turns = tuple(turns)
        return self._results


def join_roles(
    turns: Sequence[Turn], written: Sequence[list[dict[str, Any]]]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the lists in *written*, one for each of *turns*, with the role ``user`` or ``assistant``.

    Lists of neighbours with one role are joined; most turns stand alone, and their own lists are yielded.
    """
    last, parts, is_own = "", list[dict[str, Any]](), False
    for turn, more in zip(turns, written, strict=True):
        role = "assistant" if turn.role == "assistant" else "user"
        if role == last:
            parts, is_own = parts if is_own else list(parts), True
            parts += more
            continue
        if parts:
            yield last, parts
        last, parts, is_own = role, more, False
    if parts:
        yield last, parts


def find_tool(turns: Sequence[Turn], index: int, call_id: str) -> str:
    """Return the name of the tool that *call_id* called, ``unknown`` without a call.

    Searched backwards from the result at *index*: a call stands close before its result.
    """
    before = (block for at in range(index - 1, -1, -1) for block in turns[at].blocks)
    calls = (block for block in before if isinstance(block, ToolCallBlock))
    return next((call.name for call in calls if call.id == call_id), "unknown")

"""The tail that stands behind a summary: outputs of tools that fill it are thinned to their telling lines.

An engine decides where its tail begins, and a few large outputs can make it larger than all that stands for
the rest. So where the tail takes more than half of the view, the outputs in it that the model has answered
give way, the largest first: one length holds for all of them, and a longer one keeps the lines that tell most
(see :mod:`sidecar.chronicle.ranking`). An output that the model has not answered yet stays as it is, and so
do the words of the user and of the model.

For example, with outputs of 90,000 characters and twice 2,000, all answered, a tail of 24,000 tokens in a
view of 40,000 comes to 20,000 with 74,000 characters of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from sidecar.chronicle import pick_telling
from sidecar.conductor.engine import CompactionPlan, CompactionResult, SessionEngine, entry_with_turn
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import ToolResultBlock, Turn

TAIL_SHARE: Final = 2
"""The tail takes at most one in so many tokens of the view."""

LEAST_TAIL: Final = 3_000
"""A tail of so many tokens stays as it is."""

LEAST_CHARS: Final = 2_000
"""No output is made shorter than that."""

TOKEN_CHARS: Final = 4
"""The characters of a token, about."""

MARKER: Final = "[{} of {} lines, those that tell most; recall with a word of it shows all]"


def thin_plan(
    plan: CompactionPlan, engine: SessionEngine, history: History, view_tokens: int
) -> CompactionPlan:
    """Return *plan*, by *engine* for *history*, with a tail that leaves room in a view of *view_tokens*."""
    if plan.kept_tokens <= most_tail_tokens(view_tokens):
        return plan
    kept = [*map(entry_with_turn, kept_entries(plan, history), kept_turns(plan, history))]
    tail = thin_tail(kept, view_tokens, engine.weigh)
    if tail is kept:
        return plan
    turns = tuple(entry.turn for entry in tail)
    gained = engine.weigh(kept) - engine.weigh(tail)
    return replace(
        plan,
        kept=lambda: turns,
        kept_tokens=plan.kept_tokens - gained,
        dropped_tokens=plan.dropped_tokens + gained,
        projected_tokens=plan.projected_tokens - gained,
        low_tokens=plan.low_tokens - gained,
        high_tokens=plan.high_tokens - gained,
    )


def kept_entries(plan: CompactionPlan, history: History) -> list[Entry]:
    """Return the entries of *history* that *plan* keeps, as they are: the pinned ones, then the tail."""
    return [*(history[at] for at in plan.pinned), *history[plan.cut :]]


def kept_turns(plan: CompactionPlan, history: History) -> Sequence[Turn]:
    """Return the turns that *plan* keeps, as they will be sent."""
    return [entry.turn for entry in kept_entries(plan, history)] if plan.kept is None else plan.kept()


def thin_result(result: CompactionResult, engine: SessionEngine, view_tokens: int) -> CompactionResult:
    """Return *result*, by *engine*, with a tail that leaves room in a view of *view_tokens*."""
    head, *tail = result.entries
    thinned = thin_tail(tail, view_tokens, engine.weigh)
    if thinned is tail:
        return result
    return replace(
        result,
        entries=(head, *thinned),
        post_tokens=result.post_tokens - engine.weigh(tail) + engine.weigh(thinned),
    )


def most_tail_tokens(view_tokens: int) -> float:
    """Return the tokens beyond which a tail is thinned in a view of *view_tokens*, 0 for any view."""
    return max(LEAST_TAIL, view_tokens // TAIL_SHARE) if view_tokens else inf


def thin_tail(
    tail: Sequence[Entry], view_tokens: int, weigh: Callable[[Sequence[Entry]], int]
) -> Sequence[Entry]:
    """Return *tail* with its outputs thinned where it takes too much of a view, else the same object."""
    excess = weigh(tail) - most_tail_tokens(view_tokens)
    answered = max((at for at, entry in enumerate(tail) if entry.kind == "assistant"), default=0)
    sizes = [len(result.output) for entry in tail[:answered] for result in results_in(entry)]
    if excess <= 0 or max(sizes, default=0) <= LEAST_CHARS:
        return tail
    longest = level_of(sizes, int(TOKEN_CHARS * excess))
    return [*(thin_outputs(entry, longest) for entry in tail[:answered]), *tail[answered:]]


def results_in(entry: Entry) -> Iterator[ToolResultBlock]:
    """Yield the results of tools in *entry* that are texts."""
    for block in entry.turn.blocks:
        if isinstance(block, ToolResultBlock) and isinstance(block.output, str):
            yield block


def level_of(sizes: Sequence[int], excess: int) -> int:
    """Return the largest length to which all *sizes* can be cut so that *excess* is gone, or the least one.

    >>> level_of([90_000, 2_000, 2_000], 16_000)
    74000
    """
    low, high = LEAST_CHARS, max(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(0, size - middle) for size in sizes) >= excess:
            low = middle
        else:
            high = middle - 1
    return low


def thin_outputs(entry: Entry, longest: int) -> Entry:
    """Return *entry* with its outputs in *longest* characters each."""
    if not any(len(result.output) > longest + len(MARKER) for result in results_in(entry)):
        return entry
    blocks = [
        replace(block, output=thin_text(block.output, longest))
        if isinstance(block, ToolResultBlock) and isinstance(block.output, str)
        else block
        for block in entry.turn.blocks
    ]
    return entry_with_turn(entry, replace(entry.turn, blocks=tuple(blocks)))


def thin_text(text: str, longest: int) -> str:
    """Return the telling lines of *text* in *longest* characters, with a line that says so."""
    if len(text) <= longest + len(MARKER):
        return text
    kept = pick_telling(text, longest)
    return f"{kept}\n{MARKER.format(kept.count(chr(10)) + 1, text.count(chr(10)) + 1)}"

"""The backstop of a running agent: whether, where and into what a live transcript is condensed.

Beyond the documented cut rule it bounds the tail in tokens, keeps calls and results together also across
parallel batches, and never lets go of the newest prompt (B-R16, B-R17). It changes nothing: the caller
replaces the turns before ``cut`` by ``summary``, or leaves all as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ModelCard,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import CompactionPolicy, ModelInvoker
from sidecar.runtime.memory.compactor import DEFAULT_POLICY, find_cut_point, is_due
from sidecar.runtime.memory.distill import distill, summary_turn
from sidecar.runtime.memory.estimate import (
    CHARS_PER_TOKEN,
    IMAGE_CHARS,
    serialized,
    tokens_of,
    turn_chars,
)
from sidecar.runtime.memory.gist import is_host_text, local_gist

__all__ = ["LiveCompaction", "LiveCut", "compact_live", "live_tokens", "plan_live_cut"]

_TAIL_SHARE: Final = 0.5
"""How much of the room below the trigger the tail may take, so that the next call does not compact again."""
_MIN_ROOM_SHARE: Final = 0.1
"""The room, of the window, that counts as free even where the overhead alone reaches the trigger: what
cannot be compacted away must not make every call compact."""
_MIN_GAIN_SHARE: Final = 0.1
"""A compaction that would free less of that room is not worth a model call."""
_GIST_TOKENS: Final = 1_000
_MIN_GIST_TOKENS: Final = 50


@dataclass(frozen=True, slots=True)
class LiveCut:
    """Where to cut: the turns before *cut* go, *pinned* of them stays.

    *pinned* are the blocks of the newest prompt when it lies before the cut. Tokens count images flat.
    """

    cut: int
    pinned: tuple[Block, ...]
    tokens_before: int
    tail_tokens: int
    room_tokens: int


@dataclass(frozen=True, slots=True)
class LiveCompaction:
    """What became of it: *summary* replaces the turns before *cut*; *source* is who wrote the gist."""

    summary: UserTurn
    cut: int
    tokens_before: int
    tokens_after: int
    source: Literal["model", "local"]


def live_tokens(messages: Sequence[Turn]) -> int:
    """Return the estimate of *messages* with every image at 1,200 tokens."""
    return _tokens(messages)


def plan_live_cut(
    messages: Sequence[Turn],
    model: ModelCard,
    cfg: CompactionPolicy | None = None,
    *,
    tokens: int | None = None,
    overhead_tokens: int = 0,
) -> LiveCut | None:
    """Return where to cut *messages* now, or None when that is not due or would not help.

    Args:
        messages: the live transcript; a blank assistant turn at its end is looked through.
        model: the card whose window counts.
        cfg: when it is due and how many turns to keep; fewer are kept when they are too large.
        tokens: the caller's own running figure for :func:`live_tokens`; counted here when None.
        overhead_tokens: what the system prompt and the tools take of the window.

    Returns:
        A cut in ``1..len(messages)``, before which no call is separated from its result.
    """
    policy = cfg or DEFAULT_POLICY
    before = live_tokens(messages) if tokens is None else tokens
    if not is_due(before + overhead_tokens, model, policy):
        return None
    turns = _without_blank_end(messages)
    trigger = int(model.context_window * policy.trigger_ratio)
    room = max(trigger - overhead_tokens, int(model.context_window * _MIN_ROOM_SHARE))
    prompt_index, prompt = _newest_prompt(turns)
    cut, tail_tokens = _choose(turns, policy.keep_recent, room, prompt_index, _pinned_tokens(prompt))
    pinned = prompt if prompt_index < cut else ()
    freed = before - tail_tokens - _pinned_tokens(pinned)
    if cut <= 0 or freed <= max(_MIN_GAIN_SHARE * room, 1):
        return None
    return LiveCut(cut, pinned, before, tail_tokens, room)


async def compact_live(
    messages: Sequence[Turn],
    plan: LiveCut,
    invoke: ModelInvoker,
    *,
    model: ModelCard,
    cancel: CancelToken | None = None,
) -> LiveCompaction | None:
    """Carry *plan* out on *messages*, or return None when the result would not have fewer tokens.

    A gist that takes more than half of the room left is replaced by the local one. The newest results, when
    they alone are too large to keep, are quoted in part, with a marker.

    Raises:
        CancelledByToken: *cancel* fired; nothing is to be changed.
    """
    dropped = messages[: plan.cut]
    gist = await distill(dropped, invoke, model=model, cancel=cancel)
    text, source = gist.text, gist.source
    left = plan.room_tokens - plan.tail_tokens - _pinned_tokens(plan.pinned)
    freed = plan.tokens_before - plan.tail_tokens - _pinned_tokens(plan.pinned)
    max_tokens = max(_MIN_GIST_TOKENS, min(left, freed) // 2)
    if len(text) > max_tokens * CHARS_PER_TOKEN:
        text, source = local_gist(dropped, max_tokens=min(max_tokens, _GIST_TOKENS)), "local"
    if plan.cut >= len(_without_blank_end(messages)):
        text = f"{text}{_excerpt(dropped, max_tokens // 2)}"
    summary = summary_turn(text, plan.pinned)
    after = _tokens((summary, *messages[plan.cut :]))
    if after >= plan.tokens_before:
        return None
    return LiveCompaction(summary, plan.cut, plan.tokens_before, after, source)


def _tokens(turns: Sequence[Turn]) -> int:
    return tokens_of(sum(turn_chars(turn, IMAGE_CHARS) for turn in turns), len(turns))


def _pinned_tokens(pinned: tuple[Block, ...]) -> int:
    return _tokens((UserTurn(pinned),)) if pinned else 0


def _without_blank_end(messages: Sequence[Turn]) -> tuple[Turn, ...]:
    turns = tuple(messages)
    is_blank = bool(turns) and isinstance(turns[-1], AssistantTurn) and not turns[-1].blocks
    return turns[:-1] if is_blank else turns


def _newest_prompt(turns: Sequence[Turn]) -> tuple[int, tuple[Block, ...]]:
    """Return the newest turn that a user wrote and its blocks; -1 and none when there is none.

    A prompt that an earlier compaction pinned stands behind the summary's text in one turn.
    """
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if isinstance(turn, UserTurn):
            own = tuple(block for block in turn.blocks if not _is_host_block(block))
            if own:
                return index, own
    return -1, ()


def _is_host_block(block: Block) -> bool:
    return isinstance(block, TextBlock) and is_host_text(block.text)


def _choose(
    turns: Sequence[Turn], keep_recent: int, room: int, prompt_index: int, prompt_tokens: int
) -> tuple[int, int]:
    """Return the cut with the longest tail that is wanted and fits, and the tail's tokens.

    The newest group of turns is kept beyond the wanted number and beyond its share, as long as it leaves
    room for a gist, and for the prompt where that lies before the cut.
    """
    earliest = find_cut_point(turns, keep_recent)
    best = (len(turns), 0)
    for cut, tail_tokens in _legal_cuts(turns):
        is_newest = best[0] == len(turns)
        left = room - (prompt_tokens if prompt_index < cut else 0)
        share = left * _TAIL_SHARE
        if tail_tokens > (max(share, left - _GIST_TOKENS) if is_newest else share):
            break
        if cut < max(1, earliest) and not is_newest:
            break
        best = (cut, tail_tokens)
    return best


def _legal_cuts(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Yield the cuts that separate no result from its call, and the tokens behind each, newest first."""
    called = {block.id for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)}
    open_results: set[str] = set()
    n_chars = 0
    for cut in range(len(turns) - 1, -1, -1):
        turn = turns[cut]
        n_chars += turn_chars(turn, IMAGE_CHARS)
        has_results = False
        for block in reversed(turn.blocks):
            if isinstance(block, ToolResultBlock):
                has_results = True
                open_results |= {block.call_id} & called
            elif isinstance(block, ToolCallBlock):
                open_results.discard(block.id)
        if not open_results and not has_results:
            yield cut, tokens_of(n_chars, len(turns) - cut)


def _excerpt(dropped: Sequence[Turn], max_tokens: int) -> str:
    """Return both ends of the newest results, which are too large to be kept, under a heading."""
    results: list[str] = []
    for turn in reversed(dropped):
        found = [serialized(block.output) for block in turn.blocks if isinstance(block, ToolResultBlock)]
        if not found:
            break
        results = [*found, *results]
    share = max_tokens * CHARS_PER_TOKEN // (2 * len(results)) if results else 0
    return "\n\n# Newest results\n" + "\n\n".join(_ends(text, share) for text in results) if share else ""


def _ends(text: str, share: int) -> str:
    left_out = len(text) - 2 * share
    if left_out <= 0:
        return text
    return f"{text[:share]}\n[... {left_out} of {len(text)} characters left out ...]\n{text[-share:]}"

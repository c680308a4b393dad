"""The compactor: whether and where a history is condensed, and the summary that takes its place.

The documented rules come first: a history is due at a share of the window (``should_compact``), the tail has
a number of turns (``find_cut_point``), everything before it becomes one summary turn (``compact``).

A running agent needs more, and gets it from ``plan_live_cut`` and ``compact_live``. With *room* the tokens
below the trigger that the system prompt and the tools leave:

1. The tail is bounded in tokens too, by half of the room, so that the next call does not compact again. The
   newest group of turns is kept beyond that as long as it leaves room for a gist.
2. A cut never separates a call from its result, also in parallel batches: walking from the end, a cut is
   legal where no result is left without its call.
3. The newest prompt survives: where it lies before the cut, its blocks follow the summary in the same turn.
4. A compaction that would free less than a tenth of the room is not worth a model call. Overhead that alone
   reaches the trigger does not make every call compact: a tenth of the window always counts as room.
5. The result has fewer tokens than the input, or there is none. A gist that takes more than half of the room
   left, or as much as is dropped, is replaced by the local one; that has room for the gist before it. Results
   too large to keep are quoted in part.

For example, a prompt and forty turns of a tool loop, 800 characters each, in a window of 8,000 tokens at a
trigger of 0.8: the room is 6,400 tokens, the tail at most 3,200; with 8 turns to keep it is the last eight
turns of 204 tokens, and the prompt goes with the summary.

Nothing is changed here: the caller replaces the turns before ``cut`` by ``summary``, or leaves all as it was.
Cost: the length of the history, once per compaction that is due.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from sidecar._internal.cancel import CancelToken
from sidecar._internal.run_work import RunWork, run_now
from sidecar._internal.values import Value
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
from sidecar.runtime.memory.distill import distill, summarize, summary_turn
from sidecar.runtime.memory.estimate import (
    CHARS_PER_TOKEN,
    DEFAULT_POLICY,
    IMAGE_CHARS,
    TURN_OVERHEAD_TOKENS,
    estimate_context_tokens,
    is_due,
    live_tokens,
    serialize,
    tokens_of,
    turn_chars,
)
from sidecar.runtime.memory.gist import TurnKinds, earlier_gists, kind_of_text, local_gist

_TAIL_SHARE: Final = 0.5
"""How much of the room below the trigger the tail may take, so that the next call does not compact again."""
_MIN_ROOM_SHARE: Final = 0.1
"""The room, of the window, that counts as free even where the overhead alone reaches the trigger: what
cannot be compacted away must not make every call compact."""
_MIN_GAIN_SHARE: Final = 0.1
"""A compaction that would free less of that room is not worth a model call."""
_GIST_TOKENS: Final = 1_000
_MIN_GIST_TOKENS: Final = 50


def should_compact(messages: Sequence[Turn], model: ModelCard, cfg: CompactionPolicy | None = None) -> bool:
    """Whether *messages* are to be condensed.

    Args:
        messages: the history.
        model: the model, with its window.
        cfg: the share of the window that triggers; the default policy when None.
    """
    return is_due(estimate_context_tokens(messages), model, cfg)


def find_cut_point(messages: Sequence[Turn], keep_recent: float) -> int:
    """Return the index of the first turn to keep verbatim.

    The tail has ``floor(keep_recent)`` turns, fewer when it would begin with tool results: their
    call would be cut off.

    Returns:
        0 to condense nothing, ``len(messages)`` to condense everything.

    >>> find_cut_point([], 8)
    0
    """
    n = len(messages)
    if keep_recent >= n:
        return 0
    cut = n - max(0, math.floor(keep_recent))
    while cut < n and any(isinstance(block, ToolResultBlock) for block in messages[cut].blocks):
        cut += 1
    return cut


async def compact(
    messages: Sequence[Turn],
    model: ModelCard | None,
    cfg: CompactionPolicy | None,
    invoke: ModelInvoker,
    *,
    cancel: CancelToken | None = None,
) -> tuple[Turn, ...]:
    """Return ``(summary, *tail)``, or *messages* as they are when there is no prefix to condense.

    Args:
        messages: the history.
        model: the distiller's card: every prompt fits its window. None sets no such bound.
        cfg: how many turns to keep; the default policy when None.
        invoke: the distiller.
        cancel: handed to every model call.

    Raises:
        CancelledByToken: *cancel* fired while the distiller was at work.
    """
    cut = find_cut_point(messages, (cfg or DEFAULT_POLICY).keep_recent)
    if cut <= 0:
        return tuple(messages)
    summary = await summarize(messages[:cut], invoke, model=model, cancel=cancel)
    return (summary, *messages[cut:])


class LiveCut(Value, kw_only=True):
    """Where to cut: the turns before *cut* go, except for the blocks of *kept_prompt*.

    *kept_prompt* is the newest prompt when it lies before the cut. Tokens count images flat.
    """

    cut: int
    kept_prompt: tuple[Block, ...]
    tokens_before: int
    tail_tokens: int
    room_tokens: int

    @property
    def kept_tokens(self) -> int:
        """The tokens of the tail and of the kept prompt."""
        return self.tail_tokens + _prompt_tokens(self.kept_prompt)

    @property
    def gist_tokens(self) -> int:
        """The most that a gist may take: half of the free room, and less than the tokens that are dropped."""
        left, freed = self.room_tokens - self.kept_tokens, self.tokens_before - self.kept_tokens
        return max(_MIN_GIST_TOKENS, min(left // 2, freed - 2 * TURN_OVERHEAD_TOKENS))


class LiveCompaction(Value, kw_only=True):
    """A compaction made: *summary* replaces the turns before *cut*; *source* is the author of the gist.

    *was_too_long* tells that a model's gist gave way because of its length.
    """

    summary: UserTurn
    cut: int
    tokens_before: int
    tokens_after: int
    source: Literal["model", "local"]
    was_too_long: bool = False


def plan_live_cut(
    messages: Sequence[Turn],
    model: ModelCard,
    cfg: CompactionPolicy | None = None,
    *,
    tokens: int | None = None,
    overhead_tokens: int = 0,
    kinds: TurnKinds = (),
) -> LiveCut | None:
    """Return where to cut *messages* now, or None when that is not due or would not help.

    Args:
        messages: the live transcript; a blank assistant turn at its end is looked through.
        model: the model, with its window.
        cfg: when it is due and how many turns to keep; fewer are kept when they are too large.
        tokens: the caller's own running figure for :func:`live_tokens`; counted here when None.
        overhead_tokens: the share of the system prompt and the tools in the window.
        kinds: the kind of each turn, empty for unknown.

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
    prompt_index, prompt = find_newest_prompt(turns, kinds)
    cut, tail_tokens = _choose_cut(turns, policy.keep_recent, room, prompt_index, _prompt_tokens(prompt))
    kept_prompt = prompt if prompt_index < cut else ()
    freed = before - tail_tokens - _prompt_tokens(kept_prompt)
    if cut <= 0 or freed <= max(_MIN_GAIN_SHARE * room, 1):
        return None
    return LiveCut(
        cut=cut,
        kept_prompt=kept_prompt,
        tokens_before=before,
        tail_tokens=tail_tokens,
        room_tokens=room,
    )


def project_tokens(messages: Sequence[Turn], plan: LiveCut) -> tuple[int, int]:
    """Return the least and the most tokens that *messages* may take once *plan* is carried out.

    The gist is unknown but for its limits. A result that is no smaller is not taken, so the most are those
    before it where the longest gist would save nothing.
    """
    tail, quotes = messages[plan.cut :], _quotes(messages, plan)
    low, high = (
        live_tokens((summary_turn("x" * n_chars + quotes, plan.kept_prompt), *tail))
        for n_chars in (0, plan.gist_tokens * CHARS_PER_TOKEN)
    )
    return low, min(high, plan.tokens_before)


async def compact_live(
    messages: Sequence[Turn],
    plan: LiveCut,
    invoke: ModelInvoker,
    *,
    model: ModelCard,
    cancel: CancelToken | None = None,
    kinds: TurnKinds = (),
    run: RunWork = run_now,
) -> LiveCompaction | None:
    """Carry *plan* out on *messages*, or return None when the result would not have fewer tokens.

    Args:
        messages: the live transcript that was planned for.
        plan: where to cut.
        invoke: the distiller.
        model: the distiller's card.
        cancel: handed to every model call.
        kinds: the kind of each turn, empty for unknown.
        run: does the work that looks at all turns.

    Raises:
        CancelledByToken: *cancel* fired; nothing is to be changed.
    """
    dropped, kinds = messages[: plan.cut], kinds[: plan.cut]
    quotes, max_tokens = _quotes(messages, plan), plan.gist_tokens

    def shorten(text: str) -> tuple[UserTurn, int]:
        summary = summary_turn(f"{text}{quotes}", plan.kept_prompt)
        return summary, live_tokens((summary, *messages[plan.cut :]))

    def write_local() -> str:
        carried = sum(len(text) for text in earlier_gists(dropped, kinds)) // CHARS_PER_TOKEN
        return local_gist(dropped, max_tokens=min(max_tokens, _GIST_TOKENS + carried), kinds=kinds)

    gist = await distill(dropped, invoke, model=model, cancel=cancel, kinds=kinds, run=run)
    source = gist.source
    summary, after = shorten(gist.text)
    was_too_long = len(gist.text) > max_tokens * CHARS_PER_TOKEN or after >= plan.tokens_before
    if source == "local" or was_too_long:
        was_too_long, source = source == "model", "local"
        summary, after = shorten(await run(write_local))
    if after >= plan.tokens_before:
        return None
    return LiveCompaction(
        summary=summary,
        cut=plan.cut,
        tokens_before=plan.tokens_before,
        tokens_after=after,
        source=source,
        was_too_long=was_too_long,
    )


def _prompt_tokens(prompt: tuple[Block, ...]) -> int:
    return live_tokens((UserTurn(prompt),)) if prompt else 0


def _without_blank_end(messages: Sequence[Turn]) -> tuple[Turn, ...]:
    turns = tuple(messages)
    is_blank = bool(turns) and isinstance(turns[-1], AssistantTurn) and not turns[-1].blocks
    return turns[:-1] if is_blank else turns


def find_newest_prompt(turns: Sequence[Turn], kinds: TurnKinds) -> tuple[int, tuple[Block, ...]]:
    """Return the newest turn that a user wrote and its blocks; -1 and none when there is none.

    A prompt that an earlier compaction kept stands behind the summary's text in one turn.
    """
    for index in range(len(turns) - 1, -1, -1):
        turn, kind = turns[index], kinds[index] if kinds else None
        if isinstance(turn, UserTurn):
            own = tuple(
                block
                for block in turn.blocks
                if kind_of_text(block.text if isinstance(block, TextBlock) else "", kind) == "user"
            )
            if own:
                return index, own
    return -1, ()


def _choose_cut(
    turns: Sequence[Turn], keep_recent: int, room: int, prompt_index: int, prompt_tokens: int
) -> tuple[int, int]:
    """Return the cut with the longest tail that is wanted and fits, and the tail's tokens.

    The newest group of turns is kept beyond the wanted number and beyond its share, as long as it leaves
    room for a gist, and for the prompt where that lies before the cut.
    """
    earliest = find_cut_point(turns, keep_recent)
    best = (len(turns), 0)
    for cut, tail_tokens in find_legal_cuts(turns):
        is_newest = best[0] == len(turns)
        left = room - (prompt_tokens if prompt_index < cut else 0)
        share = left * _TAIL_SHARE
        if tail_tokens > (max(share, left - _GIST_TOKENS) if is_newest else share):
            break
        if cut < max(1, earliest) and not is_newest:
            break
        best = (cut, tail_tokens)
    return best


def find_legal_cuts(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
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


def _quotes(messages: Sequence[Turn], plan: LiveCut) -> str:
    """Return both ends of the newest results under a heading, where they are too large to be kept."""
    if plan.cut < len(_without_blank_end(messages)):
        return ""
    freed = plan.tokens_before - plan.kept_tokens
    max_tokens = min(plan.gist_tokens, freed // 2) // 2
    results: list[str] = []
    for turn in reversed(messages[: plan.cut]):
        found = [serialize(block.output) for block in turn.blocks if isinstance(block, ToolResultBlock)]
        if not found:
            break
        results = [*found, *results]
    share = max_tokens * CHARS_PER_TOKEN // (2 * len(results)) if results else 0
    if not share:
        return ""
    quotes: list[str] = []
    for text in results:
        left_out = len(text) - 2 * share
        if left_out > 0:
            marker = f"[... {left_out} of {len(text)} characters left out ...]"
            text = f"{text[:share]}\n{marker}\n{text[-share:]}"
        quotes.append(text)
    return "\n\n# Newest results\n" + "\n\n".join(quotes)

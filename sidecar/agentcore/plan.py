"""What a compaction would do, worked out without asking a model.

Pure: a view and a budget in, a plan of indices and token counts out. The plan is carried out elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sidecar.agentcore.budget import Budget
from sidecar.agentcore.cut import cut_index, find_turn_start, newest_prompt_index, tail_starts
from sidecar.agentcore.estimate import sent_tokens
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, is_user_prompt
from sidecar.agentcore.text import fair_cap

__all__ = ["CompactionPlan", "plan_compaction"]

_MIN_DROPPED_TOKENS = 16
"""Less than this is not worth a summary, which could hardly be smaller."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Which messages of a view are condensed, which stay, and how much room there is.

    Attributes:
        cut: index of the first message of the tail; 0 when only oversized items are shrunk.
        turn_start: where the turn that the cut splits begins, or -1 when it splits none.
        pinned: index of the newest user prompt when it lies in front of the cut and survives, or -1.
        shrink: (index, tokens) of each kept item that must be cut to that size.
        dropped_count: messages condensed, an earlier summary counted as one.
        kept_count: messages that stay.
        summary_tokens: most tokens the new summary may take.
        tokens_before: tokens of the view as it would be sent.
        is_incremental: whether an earlier summary is among what is condensed.
    """

    cut: int
    turn_start: int
    pinned: int
    shrink: tuple[tuple[int, int], ...]
    dropped_count: int
    dropped_tokens: int
    kept_count: int
    kept_tokens: int
    summary_tokens: int
    tokens_before: int
    is_incremental: bool

    @property
    def is_split_turn(self) -> bool:
        """Whether a turn's beginning is condensed apart from the turns before it."""
        return self.turn_start >= 0

    @property
    def projected_tokens(self) -> int:
        """The most the view can hold afterwards."""
        return self.kept_tokens + self.summary_tokens


def plan_compaction(
    messages: Sequence[AgentMessage],
    budget: Budget,
    *,
    force: bool = False,
    costs: Sequence[int] | None = None,
) -> CompactionPlan | None:
    """Return what to do to bring *messages* under ``budget.threshold``, or None when there is nothing to do.

    An item that alone is larger than the window can hold is cut to half the threshold; when that is enough,
    nothing is condensed (``cut`` is 0). Else what lies in front of the tail is condensed, and where even
    the tail's last tool group is too large, its largest results are cut until it fits.

    Args:
        messages: the view: a summary of earlier messages or not, then messages.
        budget: the shares of the window; see :func:`sidecar.agentcore.budget.fit_budget`.
        force: compact although the view fits, with a tail of at most a quarter of it.
        costs: what each message takes in a prompt, where that is known already.

    >>> from sidecar.agentcore.budget import fit_budget
    >>> from sidecar.agentcore.messages import text_message
    >>> view = [text_message("user", "x" * 40) for _ in range(100)]
    >>> plan = plan_compaction(view, fit_budget(800, 100, 200))
    >>> plan.cut, plan.kept_tokens, plan.is_split_turn
    (80, 200, False)
    >>> plan_compaction(view[:50], fit_budget(800, 100, 200)) is None
    True
    """
    costs = [sent_tokens(message) for message in messages] if costs is None else costs
    total = sum(costs)
    if not messages or budget.threshold <= 0 or (total <= budget.threshold and not force):
        return None
    caps = {i: budget.threshold // 2 for i, cost in enumerate(costs) if cost > budget.hard}
    if caps and not force and _total(costs, caps) <= budget.threshold:
        return _plan_shrink(costs, caps)
    keep = min(budget.keep, total // 4) if force else budget.keep
    cut = _find_cut(messages, [min(cost, caps.get(i, cost)) for i, cost in enumerate(costs)], budget, keep)
    prompt = newest_prompt_index(messages)
    dropped = [i for i in range(cut) if i != prompt]
    is_news = any(not isinstance(messages[i], CompactionSummary) for i in dropped)
    if is_news and sum(costs[i] for i in dropped) > _MIN_DROPPED_TOKENS:
        return _plan_cut(messages, costs, caps, budget, cut)
    caps = _fit(range(len(costs)), costs, caps, prompt, budget.threshold)
    return _plan_shrink(costs, caps) if caps and not force else None


def _plan_shrink(costs: Sequence[int], caps: Mapping[int, int]) -> CompactionPlan:
    return CompactionPlan(
        cut=0,
        turn_start=-1,
        pinned=-1,
        shrink=tuple(sorted(caps.items())),
        dropped_count=0,
        dropped_tokens=0,
        kept_count=len(costs),
        kept_tokens=_total(costs, caps),
        summary_tokens=0,
        tokens_before=sum(costs),
        is_incremental=False,
    )


def _plan_cut(
    messages: Sequence[AgentMessage], costs: Sequence[int], caps: Mapping[int, int], budget: Budget, cut: int
) -> CompactionPlan:
    prompt = newest_prompt_index(messages)
    pinned = prompt if prompt < cut else -1
    if pinned >= 0 and costs[pinned] > budget.threshold * 3 // 4:
        # Carried along in front of the tail it would leave no room: each call would compact again.
        caps = {**caps, pinned: budget.threshold // 2}
    kept = [i for i in (pinned, *range(cut, len(costs))) if i >= 0]
    caps = _fit(kept, costs, caps, prompt, budget.hard)
    dropped_tokens = sum(costs[:cut]) - (costs[pinned] if pinned >= 0 else 0)
    kept_tokens = sum(min(costs[i], caps.get(i, costs[i])) for i in kept)
    summary_tokens = min(max(budget.summary_floor, budget.soft - kept_tokens), dropped_tokens - 1)
    return CompactionPlan(
        cut=cut,
        turn_start=find_turn_start(messages, cut),
        pinned=pinned,
        shrink=tuple(sorted(caps.items())),
        dropped_count=len(costs) - len(kept),
        dropped_tokens=dropped_tokens,
        kept_count=len(kept),
        kept_tokens=kept_tokens,
        summary_tokens=summary_tokens,
        tokens_before=sum(costs),
        is_incremental=any(isinstance(m, CompactionSummary) for m in messages[:cut]),
    )


def _find_cut(messages: Sequence[AgentMessage], costs: Sequence[int], budget: Budget, keep: int) -> int:
    prompt = newest_prompt_index(messages)
    room = budget.soft - budget.summary_floor
    before = list(accumulate(costs, initial=0))
    cut = cut_index(before, tail_starts(messages), keep, room, prompt)
    # A tail right behind its own prompt takes the prompt along: the turn stays whole, and one call is saved.
    asks_for_prompt = cut > 0 and is_user_prompt(messages[cut - 1]) and not is_user_prompt(messages[cut])
    if asks_for_prompt and (cut - 1 == prompt or before[-1] - before[cut - 1] <= room):
        return cut - 1
    return cut


def _fit(
    kept: Sequence[int], costs: Sequence[int], caps: Mapping[int, int], prompt: int, limit: int
) -> dict[int, int]:
    """Return caps under which *kept* fits in *limit*: the largest items pay, the item *prompt* last."""
    size = {i: min(costs[i], caps.get(i, costs[i])) for i in kept}
    if sum(size.values()) > limit:
        others = [i for i in kept if i != prompt]
        cap = fair_cap([size[i] for i in others], max(limit - size.get(prompt, 0), limit // 4))
        size.update((i, min(size[i], cap)) for i in others)
        if prompt in size:
            size[prompt] = min(size[prompt], limit - sum(size[i] for i in others))
    return {i: tokens for i, tokens in size.items() if tokens < costs[i]}


def _total(costs: Sequence[int], caps: Mapping[int, int]) -> int:
    return sum(min(cost, caps.get(i, cost)) for i, cost in enumerate(costs))

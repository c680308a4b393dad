"""The plan of a compaction: how a window is shared out, where the history is cut, which messages stay.

The problem: a history has outgrown its window. Some of its beginning must give way to a summary, and a tail
must stay word for word. A tail may begin almost anywhere, but three rules hold:

1. A tool result is never separated from its call, wherever the result stands.
2. The newest user prompt always survives. Where it lies in front of the cut it is *pinned*: carried along
   between the summary and the tail.
3. After the compaction the view is under the threshold with room to grow, or each model call would compact
   again. An item that is too large for that is cut to size, visibly.

The shares of one window, in tokens::

    |------------------------------- window ------------------------------|
    |----------------------- threshold ----------------------|-- reserve -|
    | summary |  pinned prompt  |  tail (at least keep)  | 1/8 |   answer

A view over *threshold* is compacted. The new one stays under *soft*, an eighth below the threshold, so that
the next compaction is some way off. The summary has at least *summary_floor*.

The cut is the latest place from which the tail still holds *keep* tokens. Counting back from the end of the
example, with a keep of 20 and 10 tokens a message, the fifth message would do, but the result there belongs
to the call before it, so the tail begins with the call::

    user  assistant+call  result  assistant+call  result  assistant
                                  ^ cut

The turn began with the user prompt, so this cut *splits* a turn: its beginning is summarised apart from the
turns before it. A cut right behind a prompt takes the prompt along instead, where there is room.

Planning is linear in the number of messages, and calls no model.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from sidecar._internal.values import Value
from sidecar.agentcore.estimate import cost_in_prompt
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, is_user_prompt
from sidecar.text.clip import fair_cap

DEFAULT_RESERVE_TOKENS = 16384
DEFAULT_KEEP_RECENT_TOKENS = 20000
_MIN_RESERVE, _MIN_KEEP = 4096, 2000
_MIN_DROPPED_TOKENS = 16
"""Less than this is not worth a summary, which could hardly be smaller."""


class Budget(Value):
    """The shares of one window, in tokens.

    *threshold* is the largest view that is not compacted; *keep* the least tail, at most half of it.
    """

    window: int
    reserve: int
    threshold: int
    keep: int

    @property
    def soft(self) -> int:
        """The size that a fresh view stays under: the next crossing is an eighth of the threshold away."""
        return self.threshold - self.threshold // 8

    @property
    def summary_floor(self) -> int:
        """The least room that a summary always has."""
        return max(self.threshold // 16, min(512, self.threshold // 8))

    @property
    def hard(self) -> int:
        """The most that may stand beside a summary; an item larger than this cannot be kept whole."""
        return self.threshold - self.summary_floor

    @property
    def history_max(self) -> int:
        """``max_tokens`` of the summary of whole turns: four fifths of the reserve."""
        return self.reserve * 4 // 5

    @property
    def prefix_max(self) -> int:
        """``max_tokens`` of the summary of a split turn's beginning: half of the reserve."""
        return self.reserve // 2

    def narrow(self, overhead: int) -> Budget:
        """Return the budget for the messages alone, when each prompt holds *overhead* other tokens.

        A quarter of the threshold stays the messages' however large the overhead is: below that, compacting
        again and again would win nothing.
        """
        threshold = max(self.threshold - overhead, self.threshold // 4)
        return replace(self, threshold=threshold, keep=min(self.keep, threshold // 2))


def fit_budget(context_window: int, reserve_tokens: int = 0, keep_recent_tokens: int = 0) -> Budget:
    """Share out a window.

    The figures are taken as they are where the threshold holds two tails. Below that both scale with the
    window, or a compacted view would sit over its own threshold: the reserve to 13 % of it, the tail to a
    quarter of the threshold. A reserve of up to 4096 is a deliberate choice and stays.

    Args:
        context_window: the window of the model, in tokens.
        reserve_tokens: room for the answer; 0 or less means 16384.
        keep_recent_tokens: the least tail; 0 or less means 20000.

    >>> fit_budget(128000)
    Budget(window=128000, reserve=16384, threshold=111616, keep=20000)
    >>> fit_budget(8192)
    Budget(window=8192, reserve=4096, threshold=4096, keep=2000)
    """
    reserve = reserve_tokens if reserve_tokens > 0 else DEFAULT_RESERVE_TOKENS
    keep = keep_recent_tokens if keep_recent_tokens > 0 else DEFAULT_KEEP_RECENT_TOKENS
    if context_window - reserve < 2 * keep:
        scaled = max(_MIN_RESERVE, min(context_window * 13 // 100, DEFAULT_RESERVE_TOKENS))
        reserve = reserve if reserve <= _MIN_RESERVE else min(reserve, scaled, context_window // 2)
        threshold = context_window - reserve
        scaled_keep = max(_MIN_KEEP, min(threshold // 4, DEFAULT_KEEP_RECENT_TOKENS))
        keep = min(keep, scaled_keep, max(threshold // 2, 0))
    return Budget(context_window, reserve, context_window - reserve, keep)


class CutPlan(Value, kw_only=True):
    """The decision for one view: messages to condense, messages to keep, and the room for the summary.

    Attributes:
        cut: index of the first message of the tail; 0 when only oversized items are shrunk.
        turn_start: index of the prompt of the turn that the cut splits, or -1 when it splits none.
        pinned: index of the newest user prompt when it lies in front of the cut and survives, or -1.
        shrink: (index, tokens) of each kept item that must be cut to that size.
        dropped_count: messages condensed, an earlier summary counted as one.
        dropped_tokens: tokens of the messages condensed.
        kept_count: messages that stay.
        kept_tokens: tokens of the messages that stay, shrunk items at their new size.
        summary_tokens: most tokens the new summary may take.
        tokens_before: tokens of the view as it would be sent.
        is_incremental: whether an earlier summary is among the messages condensed.
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


def plan_compaction(
    messages: Sequence[AgentMessage],
    budget: Budget,
    *,
    force: bool = False,
    costs: Sequence[int] | None = None,
) -> CutPlan | None:
    """Plan how *messages* come under ``budget.threshold``.

    An item that alone is larger than the window can hold is cut to half the threshold; when that is enough,
    nothing is condensed (``cut`` is 0). Else the messages in front of the tail are condensed, and where even
    the tail's last tool group is too large, its largest results are cut until it fits.

    Args:
        messages: the view: at most one summary of earlier messages, then messages.
        budget: the shares of the window; see :func:`fit_budget`.
        force: compact although the view fits, with a tail of at most a quarter of it.
        costs: tokens of each message in a prompt, where they are known already.

    Returns:
        The plan, or None when there is nothing to do.

    >>> from sidecar.agentcore.messages import text_message
    >>> view = [text_message("user", "x" * 40) for _ in range(100)]
    >>> plan = plan_compaction(view, fit_budget(800, 100, 200))
    >>> plan.cut, plan.kept_tokens, plan.is_split_turn
    (80, 200, False)
    >>> plan_compaction(view[:50], fit_budget(800, 100, 200)) is None
    True
    """
    costs = [cost_in_prompt(message) for message in messages] if costs is None else costs
    total = sum(costs)
    if not messages or budget.threshold <= 0 or (total <= budget.threshold and not force):
        return None
    caps = {i: budget.threshold // 2 for i, cost in enumerate(costs) if cost > budget.hard}
    if caps and not force and _total_under(costs, caps) <= budget.threshold:
        return _plan_shrink(costs, caps)
    keep = min(budget.keep, total // 4) if force else budget.keep
    prompt = newest_prompt_index(messages)
    before = list(accumulate((min(cost, caps.get(i, cost)) for i, cost in enumerate(costs)), initial=0))
    room = budget.soft - budget.summary_floor
    cut = cut_index(before, tail_starts(messages), keep, room, prompt)
    # A tail right behind its own prompt takes the prompt along: the turn stays whole, and one call is saved.
    follows_prompt = cut > 0 and is_user_prompt(messages[cut - 1]) and not is_user_prompt(messages[cut])
    if follows_prompt and (cut - 1 == prompt or before[-1] - before[cut - 1] <= room):
        cut -= 1
    dropped = [i for i in range(cut) if i != prompt]
    has_news = any(not isinstance(messages[i], CompactionSummary) for i in dropped)
    if has_news and sum(costs[i] for i in dropped) > _MIN_DROPPED_TOKENS:
        return _plan_cut(messages, costs, caps, budget, cut)
    caps = _cap_largest(range(len(costs)), costs, caps, prompt, budget.threshold)
    return _plan_shrink(costs, caps) if caps and not force else None


def _plan_shrink(costs: Sequence[int], caps: Mapping[int, int]) -> CutPlan:
    return CutPlan(
        cut=0,
        turn_start=-1,
        pinned=-1,
        shrink=tuple(sorted(caps.items())),
        dropped_count=0,
        dropped_tokens=0,
        kept_count=len(costs),
        kept_tokens=_total_under(costs, caps),
        summary_tokens=0,
        tokens_before=sum(costs),
        is_incremental=False,
    )


def _plan_cut(
    messages: Sequence[AgentMessage], costs: Sequence[int], caps: Mapping[int, int], budget: Budget, cut: int
) -> CutPlan:
    prompt = newest_prompt_index(messages)
    pinned = prompt if prompt < cut else -1
    if pinned >= 0 and costs[pinned] > budget.threshold * 3 // 4:
        # Carried along in front of the tail it would leave no room: each call would compact again.
        caps = {**caps, pinned: budget.threshold // 2}
    kept = [i for i in (pinned, *range(cut, len(costs))) if i >= 0]
    caps = _cap_largest(kept, costs, caps, prompt, budget.hard)
    dropped_tokens = sum(costs[:cut]) - (costs[pinned] if pinned >= 0 else 0)
    kept_tokens = sum(min(costs[i], caps.get(i, costs[i])) for i in kept)
    return CutPlan(
        cut=cut,
        turn_start=find_turn_start(messages, cut),
        pinned=pinned,
        shrink=tuple(sorted(caps.items())),
        dropped_count=len(costs) - len(kept),
        dropped_tokens=dropped_tokens,
        kept_count=len(kept),
        kept_tokens=kept_tokens,
        summary_tokens=min(max(budget.summary_floor, budget.soft - kept_tokens), dropped_tokens * 3 // 4),
        tokens_before=sum(costs),
        is_incremental=any(isinstance(m, CompactionSummary) for m in messages[:cut]),
    )


def _cap_largest(
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


def _total_under(costs: Sequence[int], caps: Mapping[int, int]) -> int:
    return sum(min(cost, caps.get(i, cost)) for i, cost in enumerate(costs))


def tail_starts(messages: Sequence[AgentMessage]) -> list[bool]:
    """Return, for each message, whether a tail may begin with it.

    It may not begin with a tool result, nor between a call and its result, wherever the result stands. An
    id that is used again means the newest call of that id. One pass over the messages finds the pairs, one
    over their ends marks the places between them.

    >>> from sidecar.agentcore.messages import call_block, text_message, tool_message
    >>> call = Message("assistant", (call_block("1", "ls"),))
    >>> tail_starts([text_message("user", "go"), call, tool_message("1", "a.py")])
    [True, True, False]
    """
    open_calls: dict[str, int] = {}
    may_start: list[bool] = []
    ends = [0] * (len(messages) + 1)
    for index, message in enumerate(messages):
        is_result = isinstance(message, Message) and message.role == "tool"
        may_start.append(not is_result)
        if not isinstance(message, Message):
            continue
        for call in message.tool_calls():
            open_calls[call.id] = index
        called_at = open_calls.pop(message.tool_call_id or "", None) if is_result else None
        if called_at is not None:
            ends[called_at + 1] += 1
            ends[index + 1] -= 1
    inside = accumulate(ends)
    return [allowed and not depth for allowed, depth in zip(may_start, inside, strict=False)]


def cut_index(
    before: Sequence[int], may_start: Sequence[bool], keep: int, room: int, pinned: int = -1
) -> int:
    """Return the index of the first message of the tail, or 0 when there is no cut.

    The tail holds at least *keep* tokens, and begins as late as that and *may_start* allow. Where such a
    tail does not fit in *room*, it begins later, at the first place from which it fits; where none fits, at
    the last place allowed. The message *pinned* survives also in front of the tail, and then takes its part
    of the room.

    Args:
        before: tokens before each message, ascending, n + 1 long, ``before[0] == 0``.
        may_start: whether a tail may begin at each message, n long.
        keep: least tokens of the tail.
        room: most tokens of the messages that are kept.
        pinned: index of the message that is kept in any case, or -1.

    >>> cut_index([0, 10, 20, 30], [True, True, True], keep=10, room=30)
    2
    >>> cut_index([0, 10, 20, 90], [True, True, False], keep=10, room=30)
    1
    >>> cut_index([0, 10, 20, 30], [True, True, True], keep=31, room=40)
    0
    """
    cut = max(bisect_right(before, before[-1] - keep) - 1, 0)
    cut = min(cut, len(may_start) - 1)
    while cut > 0 and not may_start[cut]:
        cut -= 1
    last = cut
    for index in range(cut, len(may_start)):
        if may_start[index] or index == cut:
            last = index
            pinned_tokens = before[pinned + 1] - before[pinned] if 0 <= pinned < index else 0
            if before[-1] - before[index] + pinned_tokens <= room:
                break
    return last if before[-1] >= keep else 0


def find_turn_start(messages: Sequence[AgentMessage], cut: int) -> int:
    """Return the index of the prompt of the turn that *cut* splits, or -1 when it splits none.

    >>> find_turn_start([Message("user"), Message("assistant"), Message("assistant")], 2)
    0
    >>> find_turn_start([Message("user"), Message("assistant"), Message("user")], 2)
    -1
    """
    return -1 if is_user_prompt(messages[cut]) else newest_prompt_index(messages[:cut])


def newest_prompt_index(messages: Sequence[AgentMessage]) -> int:
    """Return the index of the newest user prompt, or -1.

    >>> newest_prompt_index([Message("user"), Message("assistant")])
    0
    """
    return next((i for i in range(len(messages) - 1, -1, -1) if is_user_prompt(messages[i])), -1)

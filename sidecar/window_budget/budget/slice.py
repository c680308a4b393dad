"""Where to cut, as the seed documents it: a prefix sum, a binary search, a snap past tool results.

The pure rule only (facts W6 to W8). It declines where one newest message outweighs the tail; what a live
session needs beyond it is in :mod:`sidecar.window_budget.plan`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from sidecar.window_budget.budget.estimate import prefix_tokens
from sidecar.window_budget.contract import BudgetPolicy, CondensePlan
from sidecar.window_budget.marks import is_prompt
from sidecar.window_budget.message import Message, ToolResultMessage

__all__ = ["is_legal_tail_start", "last_user_turn_start", "plan_slice"]


def plan_slice(messages: Sequence[Message], policy: BudgetPolicy) -> CondensePlan:
    """Divide *messages* so that the kept tail holds at most ``policy.keep_recent`` tokens.

    The tail never begins with a tool result. Nothing is dropped (``cut == 0``) when all of it fits the
    tail, or when no message may begin one.

    >>> from sidecar.window_budget.message import UserMessage
    >>> plan_slice([UserMessage("a" * 36), UserMessage("b")], BudgetPolicy(0.75, 10)).cut
    1
    """
    cut = _cut_index(messages, policy.keep_recent)
    return CondensePlan(cut, kept=tuple(messages[cut:]), dropped=tuple(messages[:cut]))


def last_user_turn_start(messages: Sequence[Message]) -> int | None:
    """Return the index of the newest prompt, or None: where a forced condense divides.

    A digest and a restored file are filed under the user's role but are no prompt.

    >>> from sidecar.window_budget.message import AssistantMessage, UserMessage
    >>> last_user_turn_start([UserMessage("a"), AssistantMessage(()), UserMessage("b"), AssistantMessage(())])
    2
    """
    return next((i for i in range(len(messages) - 1, -1, -1) if is_prompt(messages[i])), None)


def is_legal_tail_start(message: Message) -> bool:
    """Whether a kept tail may begin with *message*: anything but a tool result."""
    return not isinstance(message, ToolResultMessage)


def _cut_index(messages: Sequence[Message], keep_recent: int) -> int:
    before = prefix_tokens(messages)
    if before[-1] <= keep_recent:
        return 0
    cut = bisect_left(before, before[-1] - keep_recent)
    while cut < len(messages) and not is_legal_tail_start(messages[cut]):
        cut += 1
    return cut if cut < len(messages) else 0

"""The cut: where a transcript is divided into a head to condense and a tail to keep verbatim.

The documented rule (``plan_slice``) works on tokens alone. With ``before[i]`` the tokens before message i,
the tail may begin at the first i for which ``before[n] - before[i] <= keep_recent``: one prefix sum and one
binary search. Then the cut moves forward past tool results, because a result without its call is an error for
every provider. For example, with five messages of 10 tokens each, ``u a c r u`` (r the result of the call c),
and ``keep_recent=20``, the search finds 3, which is a result; the cut moves on to 4.

That rule gives up (cut 0) when the newest message alone is larger than the tail, and it may cut between two
results of one parallel batch. A live session needs more, so ``safe_cut`` walks from the end and keeps the set
of results that it has passed without their calls. A cut is safe where that set is empty. It takes the least
safe index at or behind the wanted start, failing that the greatest before it, so that an oversized newest
message or tool group still lets everything before it go.

Invariants: a cut never separates a result from its call, also in parallel batches and when a prompt came in
between; a call that still waits for its result stays together with all that follows it.

Cost: the ``PrefixMeter`` of a transcript keeps the sums and the legal starts as messages arrive, so that a
search costs O(log n) and ``safe_cut`` the length of the tail, however long the transcript.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from sidecar.window_budget.contract import BudgetPolicy, CondensePlan
from sidecar.window_budget.estimate import PrefixMeter, prefix_tokens
from sidecar.window_budget.message import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    calls_of,
    is_prompt,
    result_ids_of,
)


def plan_slice(messages: Sequence[Message], policy: BudgetPolicy) -> CondensePlan:
    """Divide *messages* so that the kept tail holds at most ``policy.keep_recent`` tokens.

    The tail never begins with a tool result. Nothing is dropped (``cut == 0``) when all of it fits the
    tail, or when no message may begin one.

    >>> from sidecar.window_budget.message import UserMessage
    >>> plan_slice([UserMessage("a" * 36), UserMessage("b")], BudgetPolicy(0.75, 10)).cut
    1
    """
    before = prefix_tokens(messages)
    cut = 0
    if before[-1] > policy.keep_recent:
        cut = bisect_left(before, before[-1] - policy.keep_recent)
        while cut < len(messages) and isinstance(messages[cut], ToolResultMessage):
            cut += 1
    cut = cut if cut < len(messages) else 0
    return CondensePlan(cut, kept=tuple(messages[cut:]), dropped=tuple(messages[:cut]))


def last_user_turn_start(messages: Sequence[Message]) -> int | None:
    """Return the index of the newest prompt, or None: where a forced condense divides.

    A digest and a restored file are filed under the user's role but are no prompt.

    >>> from sidecar.window_budget.message import AssistantMessage, UserMessage
    >>> last_user_turn_start([UserMessage("a"), AssistantMessage(()), UserMessage("b"), AssistantMessage(())])
    2
    """
    return next((i for i in range(len(messages) - 1, -1, -1) if is_prompt(messages[i])), None)


def safe_cut(messages: Sequence[Message], meter: PrefixMeter, start: int) -> int:
    """Return the index nearest to *start* at which *messages* may be divided.

    Args:
        messages: the transcript.
        meter: its meter.
        start: where the tail would like to begin, 0 to n.

    Returns:
        An index in 1..n-1, or 0 when no index is safe. A call of the newest assistant message that is
        still unanswered keeps that message and all behind it together.
    """
    best, unmet = 0, set[str]()
    may_be_open = True
    for index in range(len(messages) - 1, 0, -1):
        if best and index < start and not may_be_open:
            break
        message = messages[index]
        unmet.update(meter.find_answers(message, index))
        calls = {call.id for call in calls_of(message)}
        if may_be_open and calls - unmet:
            best = 0
        may_be_open = may_be_open and not _ends_open_calls(message)
        unmet -= calls
        if not unmet and meter.may_start(index):
            best = index
    return best


def has_open_calls(messages: Sequence[Message]) -> bool:
    """Whether the newest assistant message waits for a result, no prompt having come since."""
    answered = set[str]()
    for message in reversed(messages):
        if _ends_open_calls(message):
            return any(call.id not in answered for call in calls_of(message))
        answered.update(result_ids_of(message))
    return False


def _ends_open_calls(message: Message) -> bool:
    """Whether calls before *message* that are unanswered will stay so."""
    return isinstance(message, AssistantMessage) or is_prompt(message)

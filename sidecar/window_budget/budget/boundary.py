"""Where a transcript may be divided without parting a tool result from its call.

Stricter than the seed's snap: a batch of parallel calls, and a result that comes late, behind a steering
prompt, stay whole. Costs the length of the tail, not of the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.window_budget.budget.meter import PrefixMeter
from sidecar.window_budget.marks import is_prompt
from sidecar.window_budget.message import AssistantMessage, Message, calls_of, result_ids_of

__all__ = ["has_open_calls", "safe_cut"]


def safe_cut(messages: Sequence[Message], meter: PrefixMeter, start: int) -> int:
    """Return the index nearest to *start* at which *messages* may be divided.

    The least safe index at or behind *start* wins; failing that the greatest one before it, so that a
    newest message or tool group larger than the tail still lets the rest go (B-W1).

    Args:
        messages: the transcript, *meter* its meter.
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
        unmet.update(meter.answers(message, index))
        calls = {call.id for call in calls_of(message)}
        if may_be_open and calls - unmet:
            best = 0
        may_be_open = may_be_open and not _closes(message)
        unmet -= calls
        if not unmet and meter.may_start(index):
            best = index
    return best


def has_open_calls(messages: Sequence[Message]) -> bool:
    """Whether the newest assistant message waits for a result, no prompt having come since."""
    answered = set[str]()
    for message in reversed(messages):
        if _closes(message):
            return any(call.id not in answered for call in calls_of(message))
        answered.update(result_ids_of(message))
    return False


def _closes(message: Message) -> bool:
    """Whether calls before *message* that are unanswered will stay so."""
    return isinstance(message, AssistantMessage) or is_prompt(message)

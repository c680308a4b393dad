"""Where a history may be cut, and where it is (facts A4 and A5, failures B-A2 and B-A9).

Indices and token counts only; what becomes of the two halves is decided elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from sidecar.agentcore.messages import AgentMessage, Message, is_user_prompt

__all__ = ["cut_index", "find_turn_start", "newest_prompt_index", "tail_starts"]


def tail_starts(messages: Sequence[AgentMessage]) -> list[bool]:
    """Return, for each message, whether a tail may begin with it.

    It may not begin with a tool result, nor between a call and its result, wherever the result stands. An
    id that is used again means the newest call of that id.

    >>> from sidecar.agentcore.messages import call_block, text_message, tool_message
    >>> call = Message("assistant", (call_block("1", "ls"),))
    >>> tail_starts([text_message("user", "go"), call, tool_message("1", "a.py")])
    [True, True, False]
    """
    open_calls: dict[str, int] = {}
    may_start: list[bool] = []
    reach: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        is_result = isinstance(message, Message) and message.role == "tool"
        may_start.append(not is_result)
        if not isinstance(message, Message):
            continue
        for call in message.tool_calls():
            open_calls[call.id] = index
        asked_at = open_calls.pop(message.tool_call_id or "", None) if is_result else None
        if asked_at is not None:
            reach.append((asked_at, index))
    _forbid_inside(may_start, reach)
    return may_start


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
        room: most tokens of what is kept.
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
    """Return where the turn that *cut* splits begins, or -1 when it splits none (fact A5).

    >>> find_turn_start([Message("user"), Message("assistant"), Message("assistant")], 2)
    0
    >>> find_turn_start([Message("user"), Message("assistant"), Message("user")], 2)
    -1
    """
    if is_user_prompt(messages[cut]):
        return -1
    return next((i for i in range(cut - 1, -1, -1) if is_user_prompt(messages[i])), -1)


def newest_prompt_index(messages: Sequence[AgentMessage]) -> int:
    """Return the index of the newest user prompt, or -1.

    >>> newest_prompt_index([Message("user"), Message("assistant")])
    0
    """
    return next((i for i in range(len(messages) - 1, -1, -1) if is_user_prompt(messages[i])), -1)


def _forbid_inside(may_start: list[bool], reach: Sequence[tuple[int, int]]) -> None:
    """Mark what lies behind a call, up to its result, in one pass over the pairs' ends."""
    ends = [0] * (len(may_start) + 1)
    for asked_at, answered_at in reach:
        ends[asked_at + 1] += 1
        ends[answered_at + 1] -= 1
    depth = 0
    for index in range(len(may_start)):
        depth += ends[index]
        if depth:
            may_start[index] = False

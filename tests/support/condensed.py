"""What holds for every transcript, clean or broken, after ``windowBudget`` has condensed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sidecar.conductor.session_ops import compact_messages
from sidecar.window_budget import (
    DIGEST_HEADER,
    BudgetRequest,
    BudgetResult,
    Message,
    ToolResultMessage,
    UserMessage,
    estimate_tokens,
    last_user_turn_start,
    read_meter,
)
from sidecar.window_budget.cut import has_open_calls
from sidecar.window_budget.message import calls_of, text_of


def condense(messages: Sequence[Message], request: BudgetRequest) -> BudgetResult:
    """Return the result of condensing *messages* without a model."""
    return asyncio.run(compact_messages(messages, request))


def check_condensed(messages: Sequence[Message], request: BudgetRequest) -> None:
    """Smaller, inside the limit, pairs whole, newest prompt kept; a second pass finds nothing to do."""
    record = condense(messages, request)
    if record.noop:
        assert record.messages is messages
        return
    after = list(record.messages)
    assert record.tokens_before == estimate_tokens(messages)
    assert record.tokens_after == estimate_tokens(after) < record.tokens_before
    assert_pairs_are_whole(messages, after)
    assert_newest_prompt_is_kept(messages, after)
    if record.summary is not None:
        assert isinstance(after[0], UserMessage)
        assert text_of(after[0].content).startswith(DIGEST_HEADER)
        assert record.dropped_count == len(messages) - record.kept_count
        assert len(after) == 1 + len(record.restored) + record.kept_count
    unforced = replace(request, force=False)
    if (room := read_meter(messages, unforced).room) is not None and not has_open_calls(messages):
        assert record.tokens_after <= room
        assert condense(record.messages, unforced).messages is record.messages


def pair_calls(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return (call, result) positions: each result belongs to the nearest call of its id before it."""
    last: dict[str, int] = {}
    found = []
    for index, message in enumerate(messages):
        last.update((block.id, index) for block in calls_of(message))
        if isinstance(message, ToolResultMessage) and message.tool_call_id in last:
            found.append((last[message.tool_call_id], index))
    return found


def assert_pairs_are_whole(before: Sequence[Message], after: Sequence[Message]) -> None:
    """Every result has its call, and no call lost the result that it had."""
    pairs = pair_calls(after)
    results = [index for index, message in enumerate(after) if isinstance(message, ToolResultMessage)]
    assert [index for _, index in pairs] == results, "a result without its call"
    answered = {id(before[call]) for call, _ in pair_calls(before)}
    lost = {id(message) for message in after} & answered - {id(after[call]) for call, _ in pairs}
    assert not lost, "a call that lost its result"


def assert_newest_prompt_is_kept(before: Sequence[Message], after: Sequence[Message]) -> None:
    """It is there as it was, or its beginning is, with a line that says so."""
    index = last_user_turn_start(before)
    if index is None or before[index] in after:
        return
    prompt, users = before[index], [message for message in after if isinstance(message, UserMessage)]
    (cut,) = [each for message in users if "whole prompt is kept" in (each := text_of(message.content))]
    assert isinstance(prompt, UserMessage)
    assert text_of(prompt.content).startswith(cut.split("\n[... ")[0])

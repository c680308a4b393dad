"""What the tests of this room share: transcripts drawn as letters, and a clock that ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest

from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    Message,
    call_block,
    text_block,
    text_message,
    tool_message,
)

Draw: TypeAlias = Callable[..., list[AgentMessage]]


def draw_transcript(letters: str, tokens: int = 10) -> list[AgentMessage]:
    """Return one message of *tokens* for each letter.

    u user, a assistant, c assistant with a call, t the result of the newest call, s system, x an aborted
    assistant, S a summary.
    """
    messages: list[AgentMessage] = []
    for index, letter in enumerate(letters):
        text = f"{letter}{index:<7}".ljust(tokens * 4, ".")
        newest = letters.rfind("c", 0, index)
        drawn: dict[str, AgentMessage] = {
            "u": text_message("user", text),
            "a": text_message("assistant", text),
            "c": Message("assistant", (text_block(text[:-7]), call_block(f"call-{index}", "ls", "{}   "))),
            "t": tool_message(f"call-{newest}", text),
            "s": text_message("system", text),
            "x": Message("assistant", (text_block(text),), stop_reason="aborted"),
            "S": CompactionSummary(text),
        }
        messages.append(drawn[letter])
    return messages


@pytest.fixture
def draw() -> Draw:
    return draw_transcript


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """A clock that is a second later each time it is asked."""
    ticks: Iterator[int] = iter(range(10**9))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return lambda: start + timedelta(seconds=next(ticks))

"""Replies of models: the text, and how they ended."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    Usage,
    UsageEmission,
    WithdrawnEmission,
)
from sidecar.text.replies import ReplyReader

DONE = DoneEmission(AssistantTurn((ThinkingBlock("hm"), TextBlock("a"), TextBlock("b"))))


def text(*deltas: str) -> list[Emission]:
    return [TextEmission(delta) for delta in deltas]


@pytest.mark.parametrize(
    ("emissions", "shown", "is_complete"),
    [
        pytest.param([], "", True, id="nothing"),
        pytest.param(text("a", "b"), "ab", True, id="deltas"),
        pytest.param([ThinkingEmission("hm"), *text("a")], "a", True, id="reasoning is left out"),
        pytest.param([*text("x"), DONE], "ab", True, id="the whole reply wins"),
        pytest.param([*text("x"), DoneEmission(AssistantTurn(()))], "", True, id="an empty one too"),
        pytest.param([DONE, *text("x")], "ab", True, id="nothing counts behind it"),
        pytest.param([*text("x"), WithdrawnEmission(), *text("a")], "a", True, id="a call made again"),
        pytest.param([*text("a"), StopEmission("max_output")], "a", False, id="cut off"),
        pytest.param([*text("a"), StopEmission("tool_calls")], "a", True, id="ended by a call"),
        pytest.param(
            [DoneEmission(Reply("m", (TextBlock("a"),), Usage(1, 1), "refusal"))], "a", False, id="a refusal"
        ),
        pytest.param([*text("a"), ErrorEmission(GatewayError("parse", "no"))], "a", False, id="a failure"),
    ],
)  # fmt: skip
def test_a_reply(emissions: list[Emission], shown: str, is_complete: bool) -> None:
    reply = ReplyReader.of(emissions)
    assert (reply.text, reply.is_complete) == (shown, is_complete)


def test_the_usage_that_was_reported_last_counts() -> None:
    first, last = Usage(1, 2), Usage(3, 4)
    assert ReplyReader.of([UsageEmission(first), *text("a")]).usage == first
    assert ReplyReader.of([UsageEmission(first), DoneEmission(AssistantTurn(()), last)]).usage == last
    assert ReplyReader.of([UsageEmission(first), DONE]).usage == first

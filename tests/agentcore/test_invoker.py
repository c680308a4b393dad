"""The gateway as a chat model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar.agentcore.invoker import InvokerModel
from sidecar.agentcore.messages import Message, StopReason, ThinkingLevel, Usage, text_block, text_message
from sidecar.llmgateway import contract as gateway

ASKED = (text_message("system", "be brief"), text_message("user", "sum up"))


class Invoker:
    """A model invoker that yields *emissions* and remembers what it was asked; an exception is raised."""

    def __init__(self, *emissions: gateway.Emission | Exception, cancel: CancelToken | None = None) -> None:
        self.asked: list[tuple[gateway.Conversation, gateway.StreamOptions]] = []
        self._emissions = emissions
        self._cancel = cancel

    def __call__(self, conversation: gateway.Conversation, options: gateway.StreamOptions) -> gateway.Channel:
        self.asked.append((conversation, options))
        return self._stream()

    async def _stream(self) -> AsyncIterator[gateway.Emission]:
        for emission in self._emissions:
            if isinstance(emission, Exception):
                raise emission
            yield emission
        if self._cancel is not None:
            self._cancel.cancel("esc")


def reply(text: str, stop: gateway.StopReason = "complete") -> gateway.Reply:
    return gateway.Reply("m", (gateway.TextBlock(text),), gateway.Usage(10, 5, 3, None), stop)


USAGE = Usage(10, 5, 3, 0, 18)


@pytest.mark.parametrize(
    ("emissions", "expected"),
    [
        pytest.param(
            [gateway.TextEmission("a"), gateway.DoneEmission(reply("whole"))],
            Message("assistant", (text_block("whole"),), "stop", USAGE),
            id="the done reply stands for what was streamed",
        ),
        pytest.param(
            [
                gateway.ThinkingEmission("hm"),
                gateway.TextEmission("a"),
                gateway.TextEmission("b"),
                gateway.UsageEmission(gateway.Usage(10, 5, 3)),
                gateway.StopEmission("max_output"),
            ],
            Message("assistant", (text_block("ab"),), "length", USAGE),
            id="without one, the deltas",
        ),
        pytest.param(
            [gateway.DoneEmission(gateway.AssistantTurn((gateway.TextBlock("t"),)), gateway.Usage(10, 5, 3))],
            Message("assistant", (text_block("t"),), "stop", USAGE),
            id="C1: a turn with its usage",
        ),
        pytest.param([], Message("assistant", (text_block(""),), "stop"), id="a channel that says nothing"),
    ],
)
async def test_what_a_channel_says(emissions: Sequence[gateway.Emission], expected: Message) -> None:
    assert await InvokerModel(Invoker(*emissions)).generate(ASKED) == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("complete", "stop"),
        ("tool_calls", "toolUse"),
        ("max_output", "length"),
        ("refusal", "error"),
        ("aborted", "aborted"),
        ("error", "error"),
    ],
)
async def test_stop_reasons(stop: gateway.StopReason, expected: StopReason) -> None:
    answer = await InvokerModel(Invoker(gateway.DoneEmission(reply("x", stop)))).generate(ASKED)
    assert answer.stop_reason == expected


@pytest.mark.parametrize(
    ("thinking", "expected"), [(None, None), ("minimal", "low"), ("high", "high"), ("xhigh", "max")]
)
async def test_what_a_model_is_asked(
    thinking: ThinkingLevel | None, expected: gateway.ThinkingLevel | None
) -> None:
    token = CancelToken()
    invoker = Invoker(gateway.DoneEmission(reply("x")))
    await InvokerModel(invoker, cancel=lambda: token).generate(ASKED, max_tokens=7, thinking=thinking)
    assert invoker.asked == [
        (
            gateway.Conversation((gateway.UserTurn((gateway.TextBlock("sum up"),)),), system="be brief"),
            gateway.StreamOptions(cancel=token, thinking=expected, max_output_tokens=7),
        )
    ]


@pytest.mark.parametrize("as_emission", [True, False])
async def test_an_error_is_raised(as_emission: bool) -> None:
    error = gateway.gateway_error("rate_limit", "slow down")
    emission = gateway.ErrorEmission(error) if as_emission else error
    with pytest.raises(gateway.GatewayError, match="slow down"):
        await InvokerModel(Invoker(emission)).generate(ASKED)


async def test_a_cancelled_call_raises_the_tokens_own_error() -> None:
    token = CancelToken()
    model = InvokerModel(Invoker(gateway.TextEmission("half"), cancel=token), cancel=lambda: token)
    with pytest.raises(CancelledByToken, match="esc"):
        await model.generate(ASKED)
    aborted = Invoker(gateway.ErrorEmission(gateway.gateway_error("aborted", "aborted")))
    with pytest.raises(CancelledByToken, match="esc"):
        await InvokerModel(aborted, cancel=lambda: token).generate(ASKED)

"""One model call as signals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    TextBlock,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    UsageEmission,
)
from sidecar.runtime import AgentConfig, AgentDeps, create_agent
from sidecar.runtime.contract import EmissionSignal, FaultSignal, RunError, Signal, StreamEndSignal
from sidecar.runtime.turn import drive_turn

A, B = TextEmission("a"), TextEmission("b")
ERROR = ErrorEmission(GatewayError("http", "busy"))
BROKEN = ValueError("torn")
NAMELESS = ValueError()


async def speak(*said: Emission | BaseException) -> AsyncIterator[Emission]:
    for each in said:
        if isinstance(each, BaseException):
            raise each
        yield each


async def signals(channel: Channel) -> list[Signal]:
    return [signal async for signal in drive_turn(channel)]


STREAMS = {
    "an empty stream ends": ([], [StreamEndSignal()]),
    "a clean stream ends once": ([A, B], [EmissionSignal(A), EmissionSignal(B), StreamEndSignal()]),
    "also after an error emission": (
        [A, ERROR],
        [EmissionSignal(A), EmissionSignal(ERROR), StreamEndSignal()],
    ),
    "an exception faults instead": (
        [A, BROKEN],
        [EmissionSignal(A), FaultSignal(RunError("model_failed", "torn", BROKEN))],
    ),
    "an exception without words is named": (
        [NAMELESS],
        [FaultSignal(RunError("model_failed", "ValueError", NAMELESS))],
    ),
}


@pytest.mark.parametrize(("said", "expected"), STREAMS.values(), ids=STREAMS)
async def test_each_emission_becomes_a_signal_and_then_the_stream_ends(
    said: list[Emission | BaseException], expected: list[Signal]
) -> None:
    assert await signals(speak(*said)) == expected


async def test_cancellation_passes_through() -> None:
    with pytest.raises(asyncio.CancelledError):
        await signals(speak(A, asyncio.CancelledError()))


async def test_a_channel_that_can_be_read_again_is_read_from_its_start() -> None:
    channel = channel_of(lambda: speak(A))
    assert await signals(channel) == await signals(channel) == [EmissionSignal(A), StreamEndSignal()]


async def test_a_channel_that_cannot_even_begin_faults() -> None:
    class Refusing:
        def __aiter__(self) -> AsyncIterator[Emission]:
            raise BROKEN

    assert await signals(Refusing()) == [FaultSignal(RunError("model_failed", "torn", BROKEN))]


async def test_closing_early_closes_the_channel() -> None:
    closed: list[bool] = []

    async def endless() -> AsyncIterator[Emission]:
        try:
            while True:
                yield A
        finally:
            closed.append(True)

    async with aclosing(drive_turn(endless())) as stream:
        assert await anext(stream) == EmissionSignal(A)
    assert closed == [True]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("a", id="no emission at all"),
        pytest.param(TextEmission(["a"]), id="a delta that is a list"),  # type: ignore[arg-type]  # as services send it
        pytest.param(ThinkingEmission(None), id="no delta"),  # type: ignore[arg-type]  # as services send it
        pytest.param(ToolCallStartEmission("c", None), id="a call without a name"),  # type: ignore[arg-type]  # as above
        pytest.param(ToolCallDeltaEmission("c", {}), id="parsed arguments"),  # type: ignore[arg-type]  # as above
        pytest.param(UsageEmission(None), id="no usage"),  # type: ignore[arg-type]  # as above
        pytest.param(DoneEmission(None), id="no reply"),  # type: ignore[arg-type]  # as above
    ],
)
async def test_an_invalid_emission_faults_the_call_and_leaves_a_history_that_can_be_read(
    broken: Emission,
) -> None:
    streams = iter([speak(A, broken), speak(B)])
    agent = create_agent(AgentConfig(model="m"), AgentDeps(invoke_model=lambda *_: next(streams)))
    faulted = await agent.submit("one")
    settled = await agent.submit("two")
    assert faulted.error is not None
    assert faulted.error.kind == "model_failed"
    assert faulted.error.message.endswith("that is not a valid emission")
    assert [turn.role for turn in settled.messages] == ["user", "assistant", "user", "assistant"]
    assert settled.messages[1].blocks == (TextBlock("a"),)

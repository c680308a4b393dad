"""Model calls of a session: the idle timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sidecar.conductor.session_agent import with_idle_timeout
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import Emission, GatewayError, TextEmission
from sidecar.llmgateway.scripted import Hang, Say

PATIENT_S = 60.0


async def heard(emissions: AsyncIterator[Emission]) -> list[Emission]:
    return [emission async for emission in emissions]


async def test_emissions_in_time_pass_unchanged() -> None:
    async def speak() -> AsyncIterator[Emission]:
        yield TextEmission("a")
        await asyncio.sleep(0)
        yield TextEmission("b")

    channel = with_idle_timeout(channel_of(speak), PATIENT_S)
    assert await heard(aiter(channel)) == [TextEmission("a"), TextEmission("b")]
    assert await heard(aiter(channel)) == [TextEmission("a"), TextEmission("b")], "it can be read again"


async def test_the_idle_timeout_ends_the_call_and_names_its_length() -> None:
    closed: list[bool] = []

    async def fall_silent() -> AsyncIterator[Emission]:
        yield TextEmission("a")
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    emissions = aiter(with_idle_timeout(channel_of(fall_silent), 0.0))
    assert await anext(emissions) == TextEmission("a")
    with pytest.raises(GatewayError, match="sent nothing for 0 s") as raised:
        await anext(emissions)
    assert (raised.value.kind, closed) == ("transport", [True])


@pytest.mark.parametrize("error", [TimeoutError("the socket's own"), RuntimeError("boom")])
async def test_an_error_of_the_call_is_not_taken_for_the_idle_timeout(error: Exception) -> None:
    async def fail() -> AsyncIterator[Emission]:
        yield TextEmission("a")
        raise error

    with pytest.raises(type(error), match=str(error)):
        await heard(aiter(with_idle_timeout(channel_of(fail), PATIENT_S)))


async def test_closing_the_channel_ends_the_call() -> None:
    closed: list[bool] = []

    async def speak() -> AsyncIterator[Emission]:
        try:
            yield TextEmission("a")
            yield TextEmission("b")
        finally:
            closed.append(True)

    emissions: Any = aiter(with_idle_timeout(channel_of(speak), PATIENT_S))
    await anext(emissions)
    await emissions.aclose()
    assert closed == [True]


async def test_an_idle_model_faults_the_turn_and_the_next_one_runs(make_stage: Any) -> None:
    stage = await make_stage([[Say("par"), Hang()], [Say("two")]], model_idle_timeout_s=0.01)
    session = await stage.session()
    failed = await stage.ask(session, "1")
    assert failed.fault is not None
    assert failed.fault.kind == "modelFailed"
    assert "sent nothing for 0.01 s" in failed.fault.message
    assert (await stage.ask(session, "2")).text == "two"

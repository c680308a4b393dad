"""The course of a call: it ends at once when it is cancelled, and is retried after the right pause."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import aclosing
from typing import Any

import pytest

from provider_fakes import Ended, Hang, Refused, Said, Scene
from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import ErrorEmission, GatewayError
from sidecar.llmgateway.providers.calling import CallCancelledError, CancelScope, RetryPolicy
from tests.llmgateway.providers.conftest import FORMATS, StageMaker

pytestmark = pytest.mark.processes


async def hear_until_cancelled(stage: Any, token: CancelToken, *, after: int) -> list[Any]:
    """Cancel once *after* emissions, or the request, have come; return what was heard."""
    heard: list[Any] = []
    arrived = asyncio.Event()

    async def read() -> None:
        async for emission in stage.call(cancel=token):
            heard.append(emission)
            if len(heard) >= after:
                arrived.set()

    reading = asyncio.ensure_future(read())
    await (arrived.wait() if after else stage.fake.http.was_asked.wait())
    token.cancel("the user pressed esc")
    await reading
    return heard


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize(
    ("scene", "after"), [([Said(("a",)), Hang()], 1), ([Hang()], 0)], ids=["in the stream", "before it"]
)
async def test_a_stream_that_would_be_silent_for_ever_ends_and_closes(
    on_stage: StageMaker, api: str, scene: Scene, after: int
) -> None:
    async with on_stage(api, scene) as stage:
        heard = await hear_until_cancelled(stage, CancelToken(), after=after)
        await stage.fake.http.hung_up.wait()
    assert isinstance(heard[-1], ErrorEmission)
    assert (heard[-1].error.kind, len(heard)) == ("aborted", after + 1)


async def test_cancelling_from_another_thread_works_too(on_stage: StageMaker) -> None:
    token = CancelToken()
    async with on_stage("openai-chat", [Said(("a",)), Hang()]) as stage:
        heard = []
        async for emission in stage.call(cancel=token):
            heard.append(emission)
            if len(heard) == 1:
                threading.Thread(target=token.cancel).start()
    assert [emission.kind for emission in heard] == ["text", "error"]


async def test_a_cancelled_token_makes_no_request(on_stage: StageMaker) -> None:
    token = CancelToken()
    token.cancel()
    async with on_stage("openai-chat", [Said(("a",)), Ended()]) as stage:
        await stage.play(cancel=token)
    assert (stage.error.kind, stage.fake.calls, len(stage.emissions)) == ("aborted", [], 1)


async def test_the_pause_before_another_try_ends_too(on_stage: StageMaker) -> None:
    token = CancelToken()
    async with on_stage("openai-chat", [Refused(500, "oops")], sleep=asyncio.sleep) as stage:

        def on_retry(*_: Any) -> None:
            asyncio.get_running_loop().call_soon(token.cancel)

        await stage.play(cancel=token, on_retry=on_retry)
    assert (stage.error.kind, len(stage.fake.calls), len(stage.emissions)) == ("aborted", 1, 1)


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("leaves", [True, False], ids=["a reader that leaves", "a task that is cancelled"])
async def test_who_reads_no_more_closes_the_connection(on_stage: StageMaker, api: str, leaves: bool) -> None:
    """Also the hard way: the task itself is ended, as after the grace of an abort."""
    async with on_stage(api, [Said(("a", "b")), Hang()]) as stage:
        shown = asyncio.Event()

        async def read() -> None:
            channel: Any = stage.call(cancel=CancelToken())
            async with aclosing(aiter(channel)) as emissions:
                async for _ in emissions:
                    shown.set()
                    if leaves:
                        return

        reading = asyncio.ensure_future(read())
        await shown.wait()
        if not leaves:
            reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        await stage.fake.http.hung_up.wait()


async def test_a_task_outside_of_a_wait_is_never_cancelled() -> None:
    """The task belongs to the caller between two waits."""
    token = CancelToken()
    with CancelScope(token) as waits:
        assert await waits.run(asyncio.sleep(0, "first")) == "first"
        token.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(CallCancelledError):
            await waits.run(asyncio.sleep(0))
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_work_that_swallows_the_cancellation_is_cancelled_all_the_same() -> None:
    token = CancelToken()

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "went on"
        return "never"

    asyncio.get_running_loop().call_soon(token.cancel)
    with CancelScope(token) as waits, pytest.raises(CallCancelledError):
        await waits.run(stubborn())
    await asyncio.sleep(0)


BUSY = GatewayError("http", "busy", status=503)


@pytest.mark.parametrize(
    ("attempt", "error", "chance", "pause_ms"),
    [
        pytest.param(1, BUSY, 1.0, 500, id="the first pause"),
        pytest.param(4, BUSY, 1.0, 4_000, id="each one twice as long"),
        pytest.param(1, BUSY, 0.0, 250, id="spread over half of it"),
        pytest.param(5, BUSY, 1.0, 5_000, id="none longer than the longest"),
        pytest.param(6, BUSY, 1.0, None, id="not for ever"),
        pytest.param(1, GatewayError("auth", "no", status=401), 1.0, None, id="only what may get better"),
        pytest.param(1, GatewayError("rate_limit", "", retry_after_ms=9_000), 1.0, 9_000, id="as asked"),
        pytest.param(1, GatewayError("rate_limit", "", retry_after_ms=10), 1.0, 500, id="never less"),
        pytest.param(1, GatewayError("rate_limit", "", retry_after_ms=99_000), 1.0, None, id="too long"),
    ],
)
def test_the_pause_before_the_next_attempt(
    attempt: int, error: GatewayError, chance: float, pause_ms: int | None
) -> None:
    limits = RetryPolicy(max_attempts=6, first_ms=500, longest_ms=5_000, longest_asked_ms=60_000)
    assert limits.pause_ms(attempt, error, chance) == pause_ms

"""Rounds of tool calls: order, limit, cancellation, and tools that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, suppress

import pytest

from fake_tools import FunctionTools
from sidecar._internal.cancel import CancelToken
from sidecar.runtime.contract import ToolCall, ToolOutcome, ToolSettledSignal
from sidecar.runtime.dispatch import DEFAULT_CONCURRENCY, Scheduler, create_scheduler


class Interrupt(BaseException):
    """Neither an Exception nor a cancellation."""


class Bench:
    """A runner whose calls end when the test says so; ``started`` and ``live`` tell how far they are."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.live: set[str] = set()
        self.tokens: dict[str, CancelToken] = {}
        self._ends: dict[str, asyncio.Future[object]] = {}
        self._moved = asyncio.Event()

    async def run(self, call: ToolCall, cancel: CancelToken) -> ToolOutcome:
        self.started.append(call.id)
        self.live.add(call.id)
        self._moved.set()
        self.tokens[call.id] = cancel
        try:
            return ToolOutcome(call.id, await self._end(call.id), False)
        finally:
            self.live.discard(call.id)
            self._moved.set()

    async def until(self, ids: Sequence[str]) -> None:
        """Wait until exactly the calls *ids* are live."""
        while self.live != set(ids):
            self._moved.clear()
            await self._moved.wait()

    def end(self, call_id: str, output: object = "out") -> None:
        if not self._end(call_id).done():
            self._end(call_id).set_result(output)

    def _end(self, call_id: str) -> asyncio.Future[object]:
        return self._ends.setdefault(call_id, asyncio.get_running_loop().create_future())


def calls(ids: Sequence[str]) -> list[ToolCall]:
    return [ToolCall(each, "ls", {}) for each in ids]


def done(call_id: str, output: object = "out", *, is_error: bool = False) -> ToolSettledSignal:
    return ToolSettledSignal(call_id, ToolOutcome(call_id, output, is_error))


async def collect(rounds: AsyncIterator[ToolSettledSignal]) -> list[ToolSettledSignal]:
    return [signal async for signal in rounds]


async def test_calls_that_end_at_once_come_in_the_order_they_ended() -> None:
    bench = Bench()
    round_ = asyncio.create_task(collect(create_scheduler(bench).run(calls("abc"), CancelToken())))
    await bench.until("abc")
    for call_id in "cab":
        bench.end(call_id)
    assert [signal.id for signal in await round_] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("concurrency", "n_live"), [(0, 1), (-3, 1), (1, 1), (2.9, 2), (DEFAULT_CONCURRENCY, 8), (100, 10)]
)
async def test_no_more_calls_run_at_once_than_the_limit(concurrency: float, n_live: int) -> None:
    bench, ids = Bench(), "abcdefghij"
    scheduler = create_scheduler(bench, concurrency)
    round_ = asyncio.create_task(collect(scheduler.run(calls(ids), CancelToken())))
    for at, call_id in enumerate(ids):
        await bench.until(ids[at : at + n_live])
        bench.end(call_id)
    assert [signal.id for signal in await round_] == list(ids)
    assert bench.started == list(ids)


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        pytest.param("abc", ["abc"], id="readers run together"),
        pytest.param("ABC", ["A", "B", "C"], id="changers run in order"),
        pytest.param("aBc", ["a", "B", "c"], id="a changer waits for readers, a reader for a changer"),
        pytest.param("abCdeF", ["ab", "C", "de", "F"], id="readers between changers run together"),
    ],
)
async def test_calls_that_may_change_something_run_alone_and_in_order(ids: str, groups: list[str]) -> None:
    bench = Bench()
    scheduler = create_scheduler(bench, may_change=lambda call: call.id.isupper())
    round_ = asyncio.create_task(collect(scheduler.run(calls(ids), CancelToken())))
    for group in groups:
        await bench.until(group)
        for call_id in reversed(group):
            bench.end(call_id)
    assert [signal.id for signal in await round_] == [each for group in groups for each in reversed(group)]


@pytest.mark.parametrize(("ids", "is_cancelled"), [("", False), ("ab", True)])
async def test_nothing_to_run_ends_at_once(ids: str, is_cancelled: bool) -> None:
    bench, token = Bench(), CancelToken()
    if is_cancelled:
        token.cancel()
    assert await collect(create_scheduler(bench).run(calls(ids), token)) == []
    assert bench.started == []


async def test_calls_that_were_not_started_are_skipped_after_a_cancel() -> None:
    bench, token = Bench(), CancelToken()
    round_ = asyncio.create_task(collect(create_scheduler(bench, 2).run(calls("abcd"), token)))
    await bench.until("ab")
    token.cancel("enough")
    bench.end("b")
    bench.end("a")
    assert await round_ == [done("b"), done("a")]
    assert bench.started == ["a", "b"]


async def test_each_call_has_a_token_of_its_own_below_the_round_s() -> None:
    bench, token = Bench(), CancelToken()
    round_ = asyncio.create_task(collect(create_scheduler(bench).run(calls("ab"), token)))
    await bench.until("ab")
    bench.tokens["a"].cancel("mine")
    assert (token.cancelled, bench.tokens["b"].cancelled) == (False, False)
    token.cancel("theirs")
    assert (bench.tokens["a"].reason, bench.tokens["b"].reason) == ("mine", "theirs")
    bench.end("a")
    bench.end("b")
    await round_


async def test_cancel_reaches_every_live_round() -> None:
    bench = Bench()
    scheduler = Scheduler(bench)
    rounds = [asyncio.create_task(collect(scheduler.run(calls(ids), CancelToken()))) for ids in ("a", "b")]
    await bench.until("ab")
    scheduler.cancel()
    assert all(token.cancelled for token in bench.tokens.values())
    bench.end("a")
    bench.end("b")
    assert [await each for each in rounds] == [[done("a")], [done("b")]]
    scheduler.cancel()


async def _raise(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        pytest.param(ValueError("boom"), "boom", id="an exception becomes an error outcome"),
        pytest.param(ValueError(), "ValueError", id="one without words is named"),
        pytest.param(asyncio.CancelledError(), "the tool was cancelled", id="a CancelledError of its own"),
        pytest.param(Interrupt("stop"), "stop", id="a BaseException"),
    ],
)
async def test_an_exception_of_a_tool_is_its_outcome(behaviour: BaseException, expected: str) -> None:
    tools = FunctionTools(ls=lambda call, cancel: _raise(behaviour), ok=lambda call, cancel: _give("fine"))
    round_ = create_scheduler(tools.runner).run([*calls("a"), ToolCall("b", "ok", {})], CancelToken())
    outcomes = {signal.id: signal for signal in await collect(round_)}
    assert outcomes == {"a": done("a", expected, is_error=True), "b": done("b", "fine")}


async def _give(output: object) -> object:
    return output


async def test_a_runner_that_raises_before_it_awaits_is_no_exception() -> None:
    class Eager:
        def run(self, call: ToolCall, cancel: CancelToken) -> Awaitable[ToolOutcome]:
            raise ValueError("at once")

    round_ = create_scheduler(Eager()).run(calls("a"), CancelToken())
    assert await collect(round_) == [done("a", "at once", is_error=True)]


async def test_twins_are_answered_twice_and_a_wrong_id_is_put_right() -> None:
    tools = FunctionTools(ls=lambda call, cancel: _give(ToolOutcome("other", "out", True)))
    round_ = create_scheduler(tools.runner).run(calls("aab"), CancelToken())
    assert await collect(round_) == [done(each, is_error=True) for each in "aab"]


async def test_a_wrong_return_value_becomes_an_error() -> None:
    class Careless:
        async def run(self, call: ToolCall, cancel: CancelToken) -> ToolOutcome:
            return None  # type: ignore[return-value]  # what careless runners do

    round_ = create_scheduler(Careless()).run(calls("a"), CancelToken())
    message = "the tool returned NoneType and not an outcome"
    assert await collect(round_) == [done("a", message, is_error=True)]


async def test_a_tool_that_ignores_its_token_is_ended_by_force() -> None:
    bench, token = Bench(), CancelToken()
    round_ = asyncio.create_task(collect(create_scheduler(bench, grace_s=0).run(calls("ab"), token)))
    await bench.until("ab")
    token.cancel()
    message = "the tool did not stop when it was cancelled, and was ended by force"
    assert await round_ == [done("a", message, is_error=True), done("b", message, is_error=True)]
    assert bench.live == set()


async def test_a_tool_that_even_refuses_force_holds_nobody_up() -> None:
    begun, let_go, token = asyncio.Event(), asyncio.Event(), CancelToken()

    async def stubborn(call: ToolCall, cancel: CancelToken) -> object:
        begun.set()
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()
        return "late"

    tools = FunctionTools(ls=stubborn)
    round_ = asyncio.create_task(collect(create_scheduler(tools.runner, grace_s=0).run(calls("a"), token)))
    await begun.wait()
    token.cancel()
    assert [signal.result.is_error for signal in await round_] == [True]
    let_go.set()
    await asyncio.sleep(0)


async def test_a_round_that_is_left_early_leaves_nothing_behind() -> None:
    bench = Bench()
    async with aclosing(create_scheduler(bench).run(calls("ab"), CancelToken())) as round_:
        bench.end("a")
        assert await anext(round_) == done("a")
        assert bench.live == {"b"}
    assert bench.live == set()
    assert bench.tokens["b"].cancelled


async def test_who_starts_is_told_in_batches() -> None:
    bench, told = Bench(), list[list[str]]()
    scheduler = create_scheduler(bench, 2, on_start=lambda new: told.append([call.id for call in new]))
    round_ = asyncio.create_task(collect(scheduler.run(calls("abc"), CancelToken())))
    await bench.until("ab")
    assert told == [["a", "b"]]
    bench.end("a")
    await bench.until("bc")
    assert told == [["a", "b"], ["c"]]
    bench.end("b")
    bench.end("c")
    await round_
    assert not any(token.cancelled for token in bench.tokens.values()), "a round that ended well"


async def test_a_thread_may_cancel_a_round() -> None:
    asyncio.get_running_loop().set_debug(True)  # it refuses what is not made for other threads
    bench, token = Bench(), CancelToken()
    round_ = asyncio.create_task(collect(create_scheduler(bench, grace_s=0).run(calls("a"), token)))
    await bench.until("a")
    await asyncio.to_thread(token.cancel)
    async with asyncio.timeout(20):
        assert [signal.id for signal in await round_] == ["a"]

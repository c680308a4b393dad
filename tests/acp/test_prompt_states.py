"""A prompt in every state it can be in when it is taken back: which turn is stopped, and how it ends.

Over a session that is played by hand, so that each state can be held.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sidecar.acp.prompts import PendingPrompts, answer_at_end, answer_without_turn
from sidecar.conductor.contract import ContextUsage
from sidecar.conductor.events import Faulted, Message, Settled
from sidecar.conductor.record.log import EventLog
from sidecar.service.contract import Answer
from sidecar.service.handlers.turn import TurnFailed

USAGE = ContextUsage(0, 100, 80, 0.0, "estimate", None, {})


class Scene:
    """A session whose turns begin and end when the test says so."""

    def __init__(self) -> None:
        self.log = EventLog("s", lambda: 0)
        self.asked: list[dict[str, Any]] = []
        self.interrupted: list[dict[str, Any]] = []
        self.started: list[asyncio.Future[Answer]] = []
        self._news = asyncio.Event()
        self.prompts = PendingPrompts(self._ask, self.interrupted.append, answer_at_end, answer_without_turn)

    async def _ask(self, method: str, params: dict[str, Any]) -> Answer:
        assert method == "sidecar/turn/start"
        self.asked.append(params)
        self.started.append(asyncio.get_running_loop().create_future())
        self._news.set()
        return await self.started[-1]

    def begin(self, request_id: int) -> asyncio.Future[Answer]:
        return asyncio.ensure_future(self.prompts.start(request_id, self.log, {"input": ["hi"]}))

    async def sent(self, n: int) -> None:
        """Return once the n-th prompt is with the session."""
        while len(self.started) <= n:
            self._news.clear()
            await self._news.wait()

    async def start(self, n: int) -> None:
        """Let the n-th prompt that was sent be turn ``t<n>``."""
        await self.sent(n)
        self.started[n].set_result(Answer({"turnId": f"t{n}"}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def settle(self, n: int, reason: Any = "end_turn") -> None:
        self.log.append(Settled(f"t{n}", reason, None, USAGE, 0), f"t{n}")

    def fault(self, n: int, kind: str) -> None:
        self.log.append(Faulted(f"t{n}", kind, "it failed", None, USAGE, 0), f"t{n}")


def reason(answer: Answer) -> str:
    return str(answer.value["stopReason"])


async def test_a_prompt_ends_with_its_own_turn() -> None:
    scene = Scene()
    one, two = scene.begin(1), scene.begin(2)
    await scene.start(0)
    await scene.start(1)
    scene.log.append(Message("m", ()), "t0")
    scene.settle(1, "max_tokens")
    assert (reason(await two), one.done()) == ("max_tokens", False)
    scene.settle(0)
    assert reason(await one) == "end_turn"


async def test_an_end_that_comes_before_the_turn_is_known_is_found() -> None:
    scene = Scene()
    one = scene.begin(1)
    await scene.sent(0)
    scene.settle(0)
    await scene.start(0)
    assert reason(await one) == "end_turn"


async def test_a_turn_out_of_requests_is_no_error() -> None:
    scene = Scene()
    one = scene.begin(1)
    await scene.start(0)
    scene.fault(0, "turnBudget")
    assert reason(await one) == "max_turn_requests"


async def test_a_failed_turn_is_an_error_of_its_kind() -> None:
    scene = Scene()
    one = scene.begin(1)
    await scene.start(0)
    scene.fault(0, "modelFailed")
    with pytest.raises(TurnFailed) as caught:
        await one
    assert (caught.value.kind, caught.value.details) == ("modelFailed", {"sid": "s", "turnId": "t0"})


async def test_cancelled_before_it_is_sent_it_is_never_sent() -> None:
    scene = Scene()
    one = scene.begin(1)
    assert scene.prompts.cancel_request(1)
    assert (reason(await one), scene.asked, scene.interrupted) == ("cancelled", [], [])


async def test_cancelled_while_the_session_makes_room_the_running_turn_is_stopped() -> None:
    scene = Scene()
    one = scene.begin(1)
    await scene.sent(0)
    scene.prompts.cancel_request(1)
    assert scene.interrupted == [{"sid": "s"}]
    await scene.start(0)
    scene.settle(0, "cancelled")
    assert (reason(await one), scene.interrupted[1:]) == ("cancelled", [{"sid": "s", "turnId": "t0"}])


async def test_cancelled_behind_another_the_other_goes_on() -> None:
    scene = Scene()
    one, two = scene.begin(1), scene.begin(2)
    await scene.start(0)
    await scene.sent(1)
    scene.prompts.cancel_request(2)
    assert scene.interrupted == []
    await scene.start(1)
    assert scene.interrupted == [{"sid": "s", "turnId": "t1"}]
    scene.settle(1, "cancelled")
    assert (reason(await two), one.done()) == ("cancelled", False)
    scene.settle(0)
    await one


async def test_cancelled_while_it_runs_its_turn_is_stopped_once() -> None:
    scene = Scene()
    one = scene.begin(1)
    await scene.start(0)
    for _ in range(2):
        scene.prompts.cancel_request(1)
    scene.settle(0, "cancelled")
    assert (reason(await one), scene.interrupted) == ("cancelled", [{"sid": "s", "turnId": "t0"}])
    assert not scene.prompts.cancel_request(1)


async def test_cancelling_the_session_stops_everything_in_it() -> None:
    scene = Scene()
    one, two = scene.begin(1), scene.begin(2)
    await scene.start(0)
    await scene.start(1)
    scene.prompts.cancel_session("other")
    scene.prompts.cancel_session("s")
    assert scene.interrupted == [
        {"sid": "other", "queue": "drop"},
        {"sid": "s", "queue": "drop"},
        {"sid": "s", "turnId": "t0"},
        {"sid": "s", "turnId": "t1"},
    ]
    for n in (0, 1):
        scene.settle(n, "cancelled")
    assert [reason(await each) for each in (one, two)] == ["cancelled", "cancelled"]

"""Rounds of tool calls: ordered, bounded, cancellable, each call with one outcome, yielded as it comes.

A model makes several calls in one message and means them in that order: an edit after an edit of the same
file, a read after the command that wrote it. Calls that may change something therefore run alone, in order.
Calls between two such calls only read, and run at the same time. For R reading, C changing calls: R1 R2 C3
R4 runs R1 and R2 together, then C3, then R4.

The scheduler owns the tasks that it starts: however a round ends, none of them is left behind. A tool that
raises, returns a wrong value or does not stop spoils nothing but its own outcome.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeAlias

from sidecar._internal.async_cancel import end_tasks
from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import replace
from sidecar.runtime.contract import ToolCall, ToolOutcome, ToolRunner, ToolSettledSignal

__all__ = [
    "DEFAULT_CONCURRENCY",
    "DEFAULT_GRACE_S",
    "CallOrder",
    "OnStart",
    "Scheduler",
    "create_scheduler",
    "is_independent",
]

DEFAULT_CONCURRENCY = 8
"""Calls of one round that run at the same time."""

DEFAULT_GRACE_S = 1.0
"""How long a cancelled tool may take to end by itself."""

_OVERDUE = "the tool did not stop when it was cancelled, and was ended by force"

OnStart: TypeAlias = Callable[[Sequence[ToolCall]], None]
"""Called with the calls that are being started. Contract: returns soon, never raises."""

CallOrder: TypeAlias = Callable[[ToolCall], bool]
"""Whether a call may change something, so that it runs alone. Contract: returns soon, never raises."""


def is_independent(call: ToolCall) -> bool:
    """Return False: without the effects of tools, no call waits for another one."""
    return False


class Scheduler:
    """Runs rounds of tool calls; several may be live at once.

    Args:
        runner: runs a call.
        concurrency: calls of a round at the same time, rounded down, at least 1.
        grace_s: seconds a cancelled call gets to end by itself, and once more to end by force.
        on_start: called with the calls that are being started.
        may_change: whether a call runs alone; unless given, all calls of a round run at the same time.
    """

    def __init__(
        self,
        runner: ToolRunner,
        concurrency: float = DEFAULT_CONCURRENCY,
        *,
        grace_s: float = DEFAULT_GRACE_S,
        on_start: OnStart | None = None,
        may_change: CallOrder = is_independent,
    ) -> None:
        self._runner = runner
        self._limit = max(1, math.floor(concurrency))
        self._grace_s = grace_s
        self._on_start = on_start
        self._may_change = may_change
        self._live: set[_Round] = set()

    async def run(
        self, calls: Sequence[ToolCall], cancel: CancelToken
    ) -> AsyncGenerator[ToolSettledSignal, None]:
        """Run *calls*, started in order, and yield each outcome as it comes.

        Each call has a token of its own below *cancel*. Once that is cancelled no further call starts and
        those not started yield nothing; those running have the grace to end by themselves, then get an error
        outcome and are ended by force.
        """
        in_order = [(call, self._may_change(call)) for call in calls]
        round_ = _Round(self._runner, in_order, cancel.child(), self._grace_s)
        self._live.add(round_)
        try:
            while round_.fill(self._limit, self._on_start):
                for signal in await round_.next_outcomes():
                    yield signal
        finally:
            self._live.discard(round_)
            await round_.close()

    def cancel(self) -> None:
        """Cancel every live round."""
        for round_ in tuple(self._live):
            round_.token.cancel("the round was cancelled")


create_scheduler = Scheduler
"""Makes a scheduler; the name that goes with ``create_agent``."""


class _Round:
    """The calls of one round: the waiting ones, and the tasks of the running ones."""

    def __init__(
        self, runner: ToolRunner, calls: Sequence[tuple[ToolCall, bool]], token: CancelToken, grace_s: float
    ) -> None:
        """*calls* are in order, each with whether it runs alone."""
        self.token = token
        self._runner = runner
        self._grace_s = grace_s
        self._waiting = deque(calls)
        self._running: dict[asyncio.Task[ToolOutcome], ToolCall] = {}
        self._is_alone = False
        self._ended: asyncio.Queue[asyncio.Task[ToolOutcome] | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._deadline: float | None = None

        def wake() -> None:
            # A token may be cancelled from any thread.
            self._loop.call_soon_threadsafe(self._ended.put_nowait, None)

        self._unlisten = token.add_callback(wake)

    def fill(self, limit: int, on_start: OnStart | None) -> bool:
        """Start the calls that may run now, at most *limit* at a time. Returns whether any runs."""

        async def run(call: ToolCall, cancel: CancelToken) -> ToolOutcome:
            # A runner that raises before it awaits raises inside the task of its call.
            return await self._runner.run(call, cancel)

        started = []
        while self._waiting and len(self._running) < limit and not self.token.cancelled:
            call, is_alone = self._waiting[0]
            if self._running and (is_alone or self._is_alone):
                break
            self._waiting.popleft()
            self._is_alone = is_alone
            task = asyncio.create_task(run(call, self.token.child()))
            task.add_done_callback(self._ended.put_nowait)
            self._running[task] = call
            started.append(call)
        if started and on_start is not None:
            on_start(started)
        return bool(self._running)

    async def next_outcomes(self) -> Sequence[ToolSettledSignal]:
        """Wait for the next call to end; once a cancelled round has had its grace, end them all."""
        task: asyncio.Task[ToolOutcome] | None = None
        while task is None:
            if self._deadline is None and self.token.cancelled:
                self._deadline = self._loop.time() + self._grace_s
            try:
                async with asyncio.timeout_at(self._deadline):
                    task = await self._ended.get()
            except TimeoutError:
                overdue = list(self._running.values())
                await self.close()
                return [ToolSettledSignal(call.id, _error(call, _OVERDUE)) for call in overdue]
        call = self._running.pop(task)
        return (ToolSettledSignal(call.id, read_outcome(call, task)),)

    async def close(self) -> None:
        """End every call that still runs by force."""
        self._unlisten()
        running = list(self._running)
        self._running.clear()
        if running:
            self.token.cancel("the round was given up")
        await end_tasks(running, self._grace_s)


def read_outcome(call: ToolCall, task: asyncio.Future[ToolOutcome]) -> ToolOutcome:
    """Return the outcome of *task*, which is done, under the id of its *call*; a failure is an outcome."""
    if task.cancelled():
        return _error(call, "the tool was cancelled")
    if (error := task.exception()) is not None:
        return _error(call, str(error) or type(error).__name__)
    outcome: object = task.result()
    if not isinstance(outcome, ToolOutcome):
        return _error(call, f"the tool returned {type(outcome).__name__} and not an outcome")
    return outcome if outcome.id == call.id else replace(outcome, id=call.id)


def _error(call: ToolCall, message: str) -> ToolOutcome:
    return ToolOutcome(call.id, message, is_error=True)

"""The player of a script: a model invoker with a memory of what it was given. It never sleeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Literal

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.channel import channel_of, fold_reply
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    StopEmission,
    StreamOptions,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    gateway_error,
)
from sidecar.llmgateway.scripted.steps import (
    Call,
    EndWithoutDone,
    Hang,
    Raise,
    RecordedCall,
    Say,
    Script,
    Step,
    Think,
    WaitFor,
)

__all__ = ["ScriptedModel"]


class ScriptedModel:
    """A model invoker that plays *script*, one entry a call, and records what it was given in ``calls``.

    After the last entry a call fails with an ``unsupported`` error emission that says so; with
    ``when_exhausted="repeat"`` the last entry is played again. ``options.cancel`` ends a call with an
    ``aborted`` error emission before its next emission.
    """

    def __init__(
        self,
        script: Script,
        *,
        model: str = "scripted-1",
        when_exhausted: Literal["fail", "repeat"] = "fail",
    ) -> None:
        self.calls: list[RecordedCall] = []
        self._script = tuple(tuple(steps) for steps in script)
        self._model = model
        self._repeats = when_exhausted == "repeat" and bool(self._script)
        self._gates: dict[str, asyncio.Event] = {}
        self._n_tool_calls = 0

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        """Play the next entry; its channel may be read again and then plays the same entry."""
        self.calls.append(RecordedCall(conversation, options))
        steps = tuple(self._with_id(step) for step in self._steps(len(self.calls) - 1))
        return channel_of(lambda: self._play(steps, options.cancel))

    def gate(self, name: str) -> asyncio.Event:
        """Return the gate *name*; set it to let every ``WaitFor(name)`` go on."""
        return self._gates.setdefault(name, asyncio.Event())

    def _steps(self, index: int) -> Sequence[Step]:
        if index < len(self._script):
            return self._script[index]
        if self._repeats:
            return self._script[-1]
        message = f"the script has {len(self._script)} calls and this is call {index + 1}; add an entry"
        return (ErrorEmission(gateway_error("unsupported", message, provider="scripted")),)

    def _with_id(self, step: Step) -> Step:
        if not isinstance(step, Call) or step.id is not None:
            return step
        self._n_tool_calls += 1
        return Call(step.name, step.input, f"call-{self._n_tool_calls}")

    async def _play(self, steps: Sequence[Step], cancel: CancelToken | None) -> AsyncIterator[Emission]:
        said: list[Emission] = []
        for step in steps:
            if isinstance(step, EndWithoutDone):
                return
            await self._pause(step, cancel)
            for emission in _emissions(step):
                if _is_cancelled(cancel):
                    yield _aborted()
                    return
                said.append(emission)
                yield emission
                if isinstance(emission, ErrorEmission | DoneEmission):
                    return
        if _is_cancelled(cancel):
            yield _aborted()
            return
        reply = fold_reply(self._model, said)
        yield StopEmission(reply.stop)
        yield DoneEmission(reply)

    async def _pause(self, step: Step, cancel: CancelToken | None) -> None:
        match step:
            case Raise(error=error):
                raise error
            case Hang():
                await _until(asyncio.Event(), cancel)
            case WaitFor(name=name):
                await _until(self.gate(name), cancel)
            case _:
                return


def _is_cancelled(cancel: CancelToken | None) -> bool:
    return cancel is not None and cancel.cancelled


def _aborted() -> Emission:
    return ErrorEmission(gateway_error("aborted", "the call was cancelled", provider="scripted"))


def _emissions(step: Step) -> Sequence[Emission]:
    match step:
        case Say(text=text, n_deltas=n):
            return [TextEmission(piece) for piece in _pieces(text, n)]
        case Think(text=text, n_deltas=n):
            return [ThinkingEmission(piece) for piece in _pieces(text, n)]
        case Call(id=call_id, name=name, input=value):
            raw = json.dumps(value, ensure_ascii=False)
            return [ToolCallStartEmission(call_id or "", name), ToolCallDeltaEmission(call_id or "", raw)]
        case Hang() | Raise() | EndWithoutDone() | WaitFor():
            return ()
        case _:
            return (step,)


def _pieces(text: str, n: int) -> list[str]:
    """Cut *text* into *n* pieces whose lengths differ by at most one; fewer when it is shorter."""
    n = max(1, min(n, len(text)))
    bounds = [len(text) * i // n for i in range(n + 1)]
    return [text[start:end] for start, end in pairwise(bounds)]


async def _until(event: asyncio.Event, cancel: CancelToken | None) -> None:
    """Wait until *event* is set or *cancel* fires, on whichever thread that happens."""
    if cancel is None:
        await event.wait()
        return
    loop = asyncio.get_running_loop()
    cancelled = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(cancelled.set)

    stop = cancel.add_callback(wake)
    waits = [asyncio.ensure_future(each.wait()) for each in (event, cancelled)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop()
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

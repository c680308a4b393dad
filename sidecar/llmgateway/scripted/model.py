"""The steps of a script, and the model invoker that plays them. It never sleeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
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


class Say(Value):
    """Prose, cut into *n_deltas* pieces of about the same length."""

    text: str
    n_deltas: int = 1


class Think(Value):
    """Reasoning, cut into *n_deltas* pieces."""

    text: str
    n_deltas: int = 1


class Call(Value):
    """A tool call with *input*, a JSON value; without *id* it is numbered ``call-1``, ``call-2``, ..."""

    name: str
    input: Any
    id: str | None = None


class Hang(Value):
    """Say nothing more until cancelled."""


class Raise(Value):
    """Break the stream with *error*."""

    error: BaseException


class EndWithoutDone(Value):
    """End the stream with no done emission."""


class WaitFor(Value):
    """Go on when :meth:`ScriptedModel.gate` of *name* is set."""

    name: str


Step: TypeAlias = Say | Think | Call | Hang | Raise | EndWithoutDone | WaitFor | Emission
Script: TypeAlias = Sequence[Sequence[Step]]
"""One sequence of steps for each model call."""


class RecordedCall(Value):
    """The arguments of one call."""

    conversation: Conversation
    options: StreamOptions


_ABORTED = ErrorEmission(gateway_error("aborted", "the call was cancelled", provider="scripted"))


class ScriptedModel:
    """A model invoker that plays *script*, one entry a call, and records its arguments in ``calls``.

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
        index = len(self.calls)
        self.calls.append(RecordedCall(conversation, options))
        if index >= len(self._script) and not self._repeats:
            message = f"the script has {len(self._script)} calls and this is call {index + 1}; add an entry"
            error = ErrorEmission(gateway_error("unsupported", message, provider="scripted"))
            return channel_of(lambda: self._play((error,), options.cancel))
        steps: list[Step] = []
        for step in self._script[min(index, len(self._script) - 1)]:
            if isinstance(step, Call) and step.id is None:
                self._n_tool_calls += 1
                step = Call(step.name, step.input, f"call-{self._n_tool_calls}")
            steps.append(step)
        return channel_of(lambda: self._play(steps, options.cancel))

    def gate(self, name: str) -> asyncio.Event:
        """Return the gate *name*; set it to let every ``WaitFor(name)`` go on."""
        return self._gates.setdefault(name, asyncio.Event())

    async def _play(self, steps: Sequence[Step], cancel: CancelToken | None) -> AsyncIterator[Emission]:
        played: list[Emission] = []
        for step in steps:
            if isinstance(step, EndWithoutDone):
                return
            emissions: Sequence[Emission] = ()
            match step:
                case Say(text=text, n_deltas=n):
                    emissions = [TextEmission(piece) for piece in _pieces(text, n)]
                case Think(text=text, n_deltas=n):
                    emissions = [ThinkingEmission(piece) for piece in _pieces(text, n)]
                case Call(id=call_id, name=name, input=value):
                    raw = ToolCallDeltaEmission(call_id or "", json.dumps(value, ensure_ascii=False))
                    emissions = [ToolCallStartEmission(call_id or "", name), raw]
                case Raise(error=error):
                    raise error
                case Hang():
                    await _wait_for(asyncio.Event(), cancel)
                case WaitFor(name=name):
                    await _wait_for(self.gate(name), cancel)
                case _:
                    emissions = [step]
            for emission in emissions:
                if _is_cancelled(cancel):
                    yield _ABORTED
                    return
                played.append(emission)
                yield emission
                if isinstance(emission, ErrorEmission | DoneEmission):
                    return
        if _is_cancelled(cancel):
            yield _ABORTED
            return
        reply = fold_reply(self._model, played)
        yield StopEmission(reply.stop)
        yield DoneEmission(reply)


def _is_cancelled(cancel: CancelToken | None) -> bool:
    return cancel is not None and cancel.cancelled


def _pieces(text: str, n: int) -> list[str]:
    """Cut *text* into *n* pieces of about the same length; fewer when it is shorter."""
    n = max(1, min(n, len(text)))
    bounds = [len(text) * i // n for i in range(n + 1)]
    return [text[start:end] for start, end in pairwise(bounds)]


async def _wait_for(event: asyncio.Event, cancel: CancelToken | None) -> None:
    """Wait until *event* is set or *cancel* fires, in any thread."""
    if cancel is None:
        await event.wait()
    else:
        await unless_cancelled(event.wait(), cancel)

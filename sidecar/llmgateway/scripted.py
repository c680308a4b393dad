"""A model that plays a script: the fake for tests of any client, in Python or over the wire.

A script is a list of calls; each call is a list of steps. In Python a step is ``Say``, ``Think``, ``Call``,
``Hang``, ``Raise``, ``EndWithoutDone``, ``WaitFor`` or any emission; in JSON it is an object with exactly one
of these keys::

    {"text": "Hello", "deltas": 3}        prose, in that many deltas (default 1)
    {"thinking": "hm", "deltas": 2}       reasoning
    {"toolCall": {"name": "read", "input": {"path": "a.py"}, "id": "c1"}}
                                          a tool call; input defaults to {}, id to a number
    {"usage": {"input": 10, "output": 3, "cacheRead": 0, "cacheWrite": 0}}
    {"stop": "max_output"}                the stop reason; else "complete" or "tool_calls"
    {"error": {"kind": "http", "message": "busy", "status": 503}}
    {"hang": true}                        emits nothing more until it is cancelled
    {"raise": "message"}                  the stream breaks with a RuntimeError
    {"endWithoutDone": true}              the stream ends with no done emission
    {"waitFor": "name"}                   goes on when the gate of that name is set

A call that reaches its end yields stop and done by itself. Nothing here sleeps. A script from JSON is not
guessed at: a wrong value is refused with its place, the value found and the value expected.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, get_args

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.llmgateway.channel import channel_of, fold_reply
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    CostSheet,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    GatewayErrorKind,
    ModelCard,
    StopEmission,
    StopReason,
    StreamOptions,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
)

_ABORTED = ErrorEmission(GatewayError("aborted", "the call was cancelled", provider="scripted"))
_WINDOW_TOKENS: Final = 32_000
_OUTPUT_TOKENS: Final = 4_096
_FORMS: Final = (
    "text",
    "thinking",
    "toolCall",
    "usage",
    "stop",
    "error",
    "hang",
    "raise",
    "endWithoutDone",
    "waitFor",
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
            error = ErrorEmission(GatewayError("unsupported", message, provider="scripted"))
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


def model_from_json(model_id: str, spec: object) -> tuple[ModelCard, ScriptedModel]:
    """Return the scripted model that *spec* describes, and its card under the id *model_id*.

    *spec* is ``{"scripted": [steps], "contextWindow"?: tokens, "maxOutputTokens"?: tokens, "images"?: sees
    them, "cost"?: {"input": dollars, "output": dollars}}``, for a million tokens. Raises InvalidInput.
    """
    if not isinstance(spec, Mapping) or "scripted" not in spec:
        raise InvalidInput(f"models.{model_id} must be an object with a scripted list of steps")

    def tokens(name: str, default: int) -> int:
        value = spec.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInput(f"models.{model_id}.{name} must be a positive integer")
        return value

    try:
        model = ScriptedModel(script_from_json(spec["scripted"]))
    except ValueError as error:
        raise InvalidInput(f"models.{model_id}.scripted: {error}") from None
    prices = spec.get("cost", {"input": 0.0, "output": 0.0})
    if not (isinstance(prices, Mapping) and {*map(type, prices.values())} <= {int, float}):
        raise InvalidInput(f"models.{model_id}.cost must be an object of prices in dollars")
    card = ModelCard(
        str(model_id),
        f"scripted:{model_id}",
        "mock",
        f"{model_id} (scripted)",
        context_window=tokens("contextWindow", _WINDOW_TOKENS),
        max_output_tokens=tokens("maxOutputTokens", _OUTPUT_TOKENS),
        modalities=("text", "image") if spec.get("images") is True else ("text",),
        reasoning=False,
        cost=CostSheet(prices.get("input", 0.0), prices.get("output", 0.0)),
    )
    return card, model


def script_from_json(value: object) -> tuple[tuple[Step, ...], ...]:
    """Return the script that *value*, parsed JSON, describes; the package's head shows the forms.

    Raises:
        InvalidInput: names the place, such as ``script[0][2]``, the value found and the value expected.

    >>> script_from_json([[{"text": "hi"}], [{"stop": "refusal"}]])
    ((Say(text='hi', n_deltas=1),), (StopEmission(stop='refusal'),))
    """
    calls = _require(value, list, "script", "a list of calls")
    return tuple(
        tuple(
            parse_step(step, f"script[{i}][{j}]")
            for j, step in enumerate(_require(steps, list, f"script[{i}]", "a list of steps"))
        )
        for i, steps in enumerate(calls)
    )


def parse_step(value: object, where: str) -> Step:
    """Return the step of *value*, which stands at *where*."""
    step: dict[str, Any] = _require(value, dict, where, "an object")
    names = [name for name in _FORMS if name in step]
    if len(names) != 1:
        raise _refusal(where, f"has {sorted(step)}", f"exactly one of {', '.join(_FORMS)}")
    name = names[0]
    extra = sorted(set(step) - {name} - ({"deltas"} if name in ("text", "thinking") else set()))
    if extra:
        raise _refusal(where, f"has {extra} beside {name!r}", "no other keys")
    content, where = step[name], f"{where}.{name}"
    match name:
        case "text" | "thinking":
            text, n = _require(content, str, where, "a string"), step.get("deltas", 1)
            if not isinstance(n, int) or isinstance(n, bool) or n < 1:
                raise _refusal(where, f"has {n!r} deltas", "a number of 1 or more")
            return Say(text, n) if name == "text" else Think(text, n)
        case "toolCall":
            call = _fields(content, where, required=("name",), optional=("input", "id"))
            if (call_id := call.get("id")) is not None:
                _require(call_id, str, f"{where}.id", "a string")
            return Call(
                _require(call["name"], str, f"{where}.name", "a string"), call.get("input", {}), call_id
            )
        case "usage":
            return parse_usage(content, where)
        case "stop":
            if content not in get_args(StopReason):
                raise _refusal(where, f"is {content!r}", f"one of {', '.join(get_args(StopReason))}")
            return StopEmission(content)
        case "error":
            return parse_error(content, where)
        case "raise":
            return Raise(RuntimeError(_require(content, str, where, "a message")))
        case "waitFor":
            return WaitFor(_require(content, str, where, "the name of a gate"))
    if content is not True:
        raise _refusal(where, f"is {content!r}", "true")
    return Hang() if name == "hang" else EndWithoutDone()


def parse_usage(content: object, where: str) -> Step:
    """Return the usage step of *content*."""
    names = ("input", "output", "cacheRead", "cacheWrite")
    usage = _fields(content, where, required=names[:2], optional=names[2:])
    for name, count in usage.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise _refusal(f"{where}.{name}", f"is {count!r}", "a number of tokens, 0 or more")
    cache_read, cache_write = (usage.get(name) or None for name in names[2:])
    return UsageEmission(Usage(usage["input"], usage["output"], cache_read, cache_write))


def parse_error(content: object, where: str) -> Step:
    """Return the error step of *content*."""
    error = _fields(content, where, required=("kind", "message"), optional=("status",))
    kinds = get_args(GatewayErrorKind)
    if error["kind"] not in kinds:
        raise _refusal(f"{where}.kind", f"is {error['kind']!r}", f"one of {', '.join(kinds)}")
    message = _require(error["message"], str, f"{where}.message", "a string")
    return ErrorEmission(
        GatewayError(error["kind"], message, status=error.get("status"), provider="scripted")
    )


def _fields(
    value: object, where: str, *, required: Sequence[str], optional: Sequence[str]
) -> Mapping[str, Any]:
    fields: dict[str, Any] = _require(value, dict, where, "an object")
    missing = [name for name in required if name not in fields]
    extra = sorted(set(fields) - {*required, *optional})
    if missing or extra:
        found = f"lacks {missing}" if missing else f"has {extra}"
        raise _refusal(where, found, f"the keys {', '.join((*required, *optional))}")
    return fields


def _require(value: object, kind: type, where: str, expected: str) -> Any:
    if not isinstance(value, kind):
        raise _refusal(where, f"is {type(value).__name__}", expected)
    return value


def _refusal(where: str, found: str, expected: str) -> InvalidInput:
    return InvalidInput(f"{where} {found}; expected {expected}", field=where)

"""A script out of JSON, so that a client's configuration can bring one; the forms are in the package's head.

Nothing is guessed: what does not fit is refused with its place, what was found and what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from sidecar._internal.errors import InvalidInput
from sidecar.llmgateway.contract import (
    ErrorEmission,
    GatewayErrorKind,
    StopEmission,
    StopReason,
    Usage,
    UsageEmission,
    gateway_error,
)
from sidecar.llmgateway.scripted.steps import Call, EndWithoutDone, Hang, Raise, Say, Step, Think, WaitFor

__all__ = ["script_from_json"]


def script_from_json(value: object) -> tuple[tuple[Step, ...], ...]:
    """Return the script that *value*, parsed JSON, describes; the package's head shows the forms.

    Raises:
        InvalidInput: names the place, such as ``script[0][2]``, what was found and what is expected.

    >>> script_from_json([[{"text": "hi"}], [{"stop": "refusal"}]])
    ((Say(text='hi', n_deltas=1),), (StopEmission(stop='refusal'),))
    """
    calls = _typed(value, list, "script", "a list of calls")
    return tuple(
        tuple(
            _step(step, f"script[{i}][{j}]")
            for j, step in enumerate(_typed(steps, list, f"script[{i}]", "a list of steps"))
        )
        for i, steps in enumerate(calls)
    )


def _step(value: object, where: str) -> Step:
    step: dict[str, Any] = _typed(value, dict, where, "an object")
    names = [name for name in _FORMS if name in step]
    if len(names) != 1:
        raise _refused(where, f"has {sorted(step)}", f"exactly one of {', '.join(_FORMS)}")
    name = names[0]
    extra = sorted(set(step) - {name} - ({"deltas"} if name in ("text", "thinking") else set()))
    if extra:
        raise _refused(where, f"has {extra} beside {name!r}", "no other keys")
    return _FORMS[name](step, f"{where}.{name}")


def _say(step: Mapping[str, Any], where: str) -> Step:
    return Say(_typed(step["text"], str, where, "a string"), _deltas(step, where))


def _think(step: Mapping[str, Any], where: str) -> Step:
    return Think(_typed(step["thinking"], str, where, "a string"), _deltas(step, where))


def _deltas(step: Mapping[str, Any], where: str) -> int:
    n = step.get("deltas", 1)
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise _refused(where, f"has {n!r} deltas", "a number of 1 or more")
    return n


def _call(step: Mapping[str, Any], where: str) -> Step:
    call = _fields(step["toolCall"], where, required=("name",), optional=("input", "id"))
    call_id = call.get("id")
    if call_id is not None:
        _typed(call_id, str, f"{where}.id", "a string")
    return Call(_typed(call["name"], str, f"{where}.name", "a string"), call.get("input", {}), call_id)


def _usage(step: Mapping[str, Any], where: str) -> Step:
    names = ("input", "output", "cacheRead", "cacheWrite")
    usage = _fields(step["usage"], where, required=names[:2], optional=names[2:])
    for name, count in usage.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise _refused(f"{where}.{name}", f"is {count!r}", "a number of tokens, 0 or more")
    cache_read, cache_write = (usage.get(name) or None for name in names[2:])
    return UsageEmission(Usage(usage["input"], usage["output"], cache_read, cache_write))


def _stop(step: Mapping[str, Any], where: str) -> Step:
    stop = step["stop"]
    if stop not in get_args(StopReason):
        raise _refused(where, f"is {stop!r}", f"one of {', '.join(get_args(StopReason))}")
    return StopEmission(stop)


def _error(step: Mapping[str, Any], where: str) -> Step:
    error = _fields(step["error"], where, required=("kind", "message"), optional=("status",))
    if error["kind"] not in get_args(GatewayErrorKind):
        raise _refused(
            f"{where}.kind", f"is {error['kind']!r}", f"one of {', '.join(get_args(GatewayErrorKind))}"
        )
    message = _typed(error["message"], str, f"{where}.message", "a string")
    return ErrorEmission(
        gateway_error(error["kind"], message, status=error.get("status"), provider="scripted")
    )


def _wait_for(step: Mapping[str, Any], where: str) -> Step:
    return WaitFor(_typed(step["waitFor"], str, where, "the name of a gate"))


def _raise(step: Mapping[str, Any], where: str) -> Step:
    return Raise(RuntimeError(_typed(step["raise"], str, where, "a message")))


def _hang(step: Mapping[str, Any], where: str) -> Step:
    return _flag(step["hang"], Hang(), where)


def _end(step: Mapping[str, Any], where: str) -> Step:
    return _flag(step["endWithoutDone"], EndWithoutDone(), where)


def _flag(value: object, step: Step, where: str) -> Step:
    if value is not True:
        raise _refused(where, f"is {value!r}", "true")
    return step


_FORMS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Step]]] = {
    "text": _say,
    "thinking": _think,
    "toolCall": _call,
    "usage": _usage,
    "stop": _stop,
    "error": _error,
    "hang": _hang,
    "raise": _raise,
    "endWithoutDone": _end,
    "waitFor": _wait_for,
}


def _fields(value: object, where: str, *, required: Sequence[str], optional: Sequence[str]) -> dict[str, Any]:
    fields: dict[str, Any] = _typed(value, dict, where, "an object")
    missing = [name for name in required if name not in fields]
    extra = sorted(set(fields) - {*required, *optional})
    if missing or extra:
        found = f"lacks {missing}" if missing else f"has {extra}"
        raise _refused(where, found, f"the keys {', '.join((*required, *optional))}")
    return fields


def _typed(value: object, kind: type, where: str, expected: str) -> Any:
    if not isinstance(value, kind):
        raise _refused(where, f"is {type(value).__name__}", expected)
    return value


def _refused(where: str, found: str, expected: str) -> InvalidInput:
    return InvalidInput(f"{where} {found}; expected {expected}", field=where)

"""Scripts from JSON, so that a client's configuration can bring one; the forms are in the package's head.

Nothing is guessed: a wrong value is refused with its place, the value found and the value expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from sidecar._internal.errors import InvalidInput
from sidecar.llmgateway.contract import (
    CostSheet,
    ErrorEmission,
    GatewayErrorKind,
    ModelCard,
    StopEmission,
    StopReason,
    Usage,
    UsageEmission,
    gateway_error,
)
from sidecar.llmgateway.scripted.model import (
    Call,
    EndWithoutDone,
    Hang,
    Raise,
    Say,
    ScriptedModel,
    Step,
    Think,
    WaitFor,
)

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


def model_from_json(model_id: str, spec: object) -> tuple[ModelCard, ScriptedModel]:
    """Return the scripted model that *spec* describes, and its card under the id *model_id*.

    *spec* is ``{"scripted": [steps], "contextWindow"?: tokens, "maxOutputTokens"?: tokens, "images"?: sees
    them}``. Raises InvalidInput.
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
    card = ModelCard(
        str(model_id),
        f"scripted:{model_id}",
        "mock",
        f"{model_id} (scripted)",
        context_window=tokens("contextWindow", _WINDOW_TOKENS),
        max_output_tokens=tokens("maxOutputTokens", _OUTPUT_TOKENS),
        modalities=("text", "image") if spec.get("images") is True else ("text",),
        reasoning=False,
        cost=CostSheet(0.0, 0.0),
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
        gateway_error(error["kind"], message, status=error.get("status"), provider="scripted")
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

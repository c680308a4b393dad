"""One answer as it streams in: what to emit of each piece, and the whole of it at the end. Pure.

The same for every provider, so that the same answer comes out the same. Blocks keep the order in which the
model made them; arguments that are not valid JSON stay raw text, which no tool accepts.

SDKs check nothing of a stream: a field that its format declares as text may hold any JSON value. Types are
checked here, once for every format, so that nothing behind the gateway meets a delta that is not text.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sidecar.llmgateway.contract import (
    Block,
    DoneEmission,
    Emission,
    Reply,
    StopEmission,
    StopReason,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
)

__all__ = ["Assembly", "Emissions", "MalformedAnswerError"]

Emissions: TypeAlias = Sequence[Emission]
"""What one piece of a stream says: often nothing, seldom more than one thing."""

_NOTHING: Final[Emissions] = ()


class MalformedAnswerError(ValueError):
    """A value in an answer has another type than its format promises."""


@dataclass(slots=True)
class _Text:
    deltas: list[str]


@dataclass(slots=True)
class _Thinking:
    deltas: list[str]
    signature: str | None = None


@dataclass(slots=True)
class _Call:
    call_id: str
    name: str = ""
    deltas: list[str] = field(default_factory=list)
    is_told: bool = False


class Assembly:
    """The answer of one call under construction. *usage* and *stop* are None until the provider told them."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.stop: StopReason | None = None
        self._parts: list[_Text | _Thinking | _Call] = []
        self._calls: dict[Hashable, _Call] = {}

    def text(self, delta: object) -> Emissions:
        """Add prose. As in every method here, None adds nothing, other types raise MalformedAnswerError."""
        delta = _checked(delta, "a piece of text")
        if not delta:
            return _NOTHING
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Text):
            last.deltas.append(delta)
        else:
            self._parts.append(_Text([delta]))
        return (TextEmission(delta),)

    def open_thinking(self) -> None:
        """Begin a block of reasoning of its own."""
        self._parts.append(_Thinking([]))

    def thinking(self, delta: object, signature: str | None = None) -> Emissions:
        """Add reasoning, to the open block of it where there is one with the same *signature*."""
        delta = _checked(delta, "a piece of reasoning")
        if not delta:
            return _NOTHING
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Thinking) and last.signature == signature:
            last.deltas.append(delta)
        else:
            self._parts.append(_Thinking([delta], signature))
        return (ThinkingEmission(delta),)

    def sign(self, signature: object) -> None:
        """Put *signature* on the open block of reasoning, else on an empty one of its own."""
        signature = _checked(signature, "a signature")
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Thinking) and last.signature is None:
            last.signature = signature
        else:
            self._parts.append(_Thinking([], signature))

    def call(self, key: Hashable, call_id: object, name: object) -> Emissions:
        """Add to what is known of the call that the provider knows as *key*; told once it has a name."""
        call_id, name = _checked(call_id, "the id of a tool call"), _checked(name, "the name of a tool")
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call(self._fresh_id(call_id))
            self._parts.append(call)
        call.name = call.name or name
        if call.is_told or not call.name:
            return _NOTHING
        call.is_told = True
        earlier = [ToolCallDeltaEmission(call.call_id, delta) for delta in call.deltas]
        return (ToolCallStartEmission(call.call_id, call.name), *earlier)

    def arguments(self, key: Hashable, delta: object) -> Emissions:
        """Add argument text to the call *key*."""
        delta = _checked(delta, "a piece of arguments")
        call = self._calls.get(key)
        if call is None or not delta:
            return _NOTHING
        call.deltas.append(delta)
        return (ToolCallDeltaEmission(call.call_id, delta),) if call.is_told else _NOTHING

    def has_arguments(self, key: Hashable) -> bool:
        """Whether the call *key* has any argument text yet."""
        call = self._calls.get(key)
        return call is not None and bool(call.deltas)

    def ending(self, model: str) -> Emissions:
        """Return the last emissions: usage once, why it stopped, and the whole reply."""
        stop = self._stop()
        blocks = tuple(_block(part) for part in self._parts if not _is_empty(part))
        reply = Reply(model, blocks, self.usage or Usage(0, 0), stop)
        # Zeros are no figure: a provider that does not count says nothing.
        told = (UsageEmission(reply.usage),) if reply.usage != Usage(0, 0) else ()
        return (*told, StopEmission(stop), DoneEmission(reply))

    def _stop(self) -> StopReason:
        stop = self.stop or "complete"
        if stop in ("complete", "tool_calls"):
            return "tool_calls" if self._calls else "complete"
        return stop

    def _fresh_id(self, call_id: str) -> str:
        """Return *call_id*, or one of its own for a call without, or with another call's."""
        taken = {call.call_id for call in self._calls.values()}
        if call_id and call_id not in taken:
            return call_id
        base, n = call_id or "call", len(taken) + 1
        while f"{base}_{n}" in taken:
            n += 1
        return f"{base}_{n}"


def _checked(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedAnswerError(f"{what} is of type {type(value).__name__}")
    return value


def _is_empty(part: _Text | _Thinking | _Call) -> bool:
    return isinstance(part, _Thinking) and part.signature is None and not part.deltas


def _block(part: _Text | _Thinking | _Call) -> Block:
    match part:
        case _Text(deltas=deltas):
            return TextBlock("".join(deltas))
        case _Thinking(deltas=deltas, signature=signature):
            return ThinkingBlock("".join(deltas), signature)
        case _Call(call_id=call_id, name=name, deltas=deltas):
            return ToolCallBlock(call_id, name, _parsed("".join(deltas)))


def _parsed(raw: str) -> Any:
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw

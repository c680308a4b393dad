"""One model call as a stream: channels that can be read again, and what a stream adds up to (facts 1.1).

Nothing here calls a model; it wraps, drains and folds what one yields.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sidecar.llmgateway.contract import (
    Block,
    Channel,
    DoneEmission,
    Emission,
    ErrorEmission,
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
    emissions_of,
    gateway_error,
)

__all__ = ["ChannelFactory", "channel_of", "collect_reply", "fold_reply"]

ChannelFactory: TypeAlias = Callable[[], AsyncIterator[Emission]]
"""Starts one model call. Contract: takes no arguments and returns a fresh iterator each time."""


@dataclass(frozen=True, slots=True)
class _FactoryChannel:
    factory: ChannelFactory

    def __aiter__(self) -> AsyncIterator[Emission]:
        return self.factory()


def channel_of(factory: ChannelFactory) -> Channel:
    """Return a channel that calls *factory* anew for each ``async for``."""
    return _FactoryChannel(factory)


async def collect_reply(channel: Channel, *, model: str = "") -> Reply:
    """Drain *channel* and return its reply.

    The first done emission decides; without one the deltas are folded. *model* names the reply where
    the stream does not.

    Raises:
        GatewayError: that of an error emission, or ``transport`` when the channel yields nothing.
    """
    seen: list[Emission] = []
    async with emissions_of(channel) as emissions:
        async for emission in emissions:
            if isinstance(emission, ErrorEmission):
                raise emission.error
            seen.append(emission)
            if isinstance(emission, DoneEmission):
                break
    if not seen:
        raise gateway_error("transport", "the model's stream ended before it said anything; try again")
    return fold_reply(model, seen)


def fold_reply(model: str, emissions: Iterable[Emission]) -> Reply:
    """Return what *emissions* add up to: thinking, then text, then calls in the order they opened.

    The last usage wins. Empty arguments become ``{}``, malformed ones stay raw text. A done emission
    stands for everything streamed before it, the signatures of its thinking included (failure B-R24).
    An error emission ends the fold with the stop reason ``aborted`` or ``error``.

    >>> fold_reply("m", [TextEmission("Hel"), TextEmission("lo")]).blocks
    (TextBlock(text='Hello'),)
    """
    fold = _Fold()
    for emission in emissions:
        match emission:
            case DoneEmission():
                return _finished(model, emission, fold)
            case ErrorEmission(error=error):
                fold.stop = "aborted" if error.kind == "aborted" else "error"
                break
            case _:
                fold.add(emission)
    return Reply(model, fold.blocks(), fold.usage, _stop(fold.stop, bool(fold.names)))


@dataclass(slots=True)
class _Fold:
    thinking: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, list[str]] = field(default_factory=dict)
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    stop: StopReason = "complete"

    def add(self, emission: Emission) -> None:
        match emission:
            case TextEmission(delta=delta):
                self.text.append(delta)
            case ThinkingEmission(delta=delta):
                self.thinking.append(delta)
            case ToolCallStartEmission(id=call_id, name=name):
                self.names[call_id] = name
            case ToolCallDeltaEmission(id=call_id, args_delta=delta):
                self.names.setdefault(call_id, "")
                self.arguments.setdefault(call_id, []).append(delta)
            case UsageEmission(usage=usage):
                self.usage = usage
            case StopEmission(stop=stop):
                self.stop = stop
            case _:
                return

    def blocks(self) -> tuple[Block, ...]:
        prose: list[Block] = []
        if self.thinking:
            prose.append(ThinkingBlock("".join(self.thinking)))
        if self.text:
            prose.append(TextBlock("".join(self.text)))
        calls = (
            ToolCallBlock(call_id, name, _parsed("".join(self.arguments.get(call_id, ()))))
            for call_id, name in self.names.items()
        )
        return (*prose, *calls)


def _finished(model: str, done: DoneEmission, fold: _Fold) -> Reply:
    if isinstance(done.reply, Reply):
        return done.reply
    has_calls = any(isinstance(block, ToolCallBlock) for block in done.reply.blocks)
    return Reply(model, done.reply.blocks, done.usage or fold.usage, _stop(fold.stop, has_calls))


def _stop(stop: StopReason, has_calls: bool) -> StopReason:
    return "tool_calls" if has_calls and stop == "complete" else stop


def _parsed(raw: str) -> Any:
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw

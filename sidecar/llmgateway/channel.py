"""Channels: the streams of model calls, how they are made, read, folded into a reply, and combined.

Nothing here knows a model or a provider.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import (
    Block,
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    StopReason,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
    WithdrawnEmission,
    emissions_of,
)
from sidecar.text.mend import mend_object

Invoke: TypeAlias = Callable[[Conversation, StreamOptions], Channel]
"""Calls a model. Contract: that of ``ModelInvoker`` in ``sidecar.runtime.contract``."""

ChannelFactory: TypeAlias = Callable[[], AsyncIterator[Emission]]
"""Starts one model call. Contract: takes no arguments and returns a fresh iterator each time."""


class _FactoryChannel(Value):
    factory: ChannelFactory

    def __aiter__(self) -> AsyncIterator[Emission]:
        return self.factory()


def channel_of(factory: ChannelFactory) -> Channel:
    """Return a channel that calls *factory* anew for each ``async for``."""
    return _FactoryChannel(factory)


async def collect_reply(channel: Channel, *, model: str = "") -> Reply:
    """Drain *channel* and return its reply.

    The first done emission decides; without one the deltas are folded. *model* names the reply when the
    stream does not.

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
        raise GatewayError("transport", "the model's stream ended before its first word; try again")
    return fold_reply(model, seen)


def fold_reply(model: str, emissions: Iterable[Emission]) -> Reply:
    """Return the reply of *emissions*: thinking, then text, then calls in the order they opened.

    The last usage counts. Empty arguments become ``{}``, malformed ones stay raw text. A done emission
    replaces everything streamed before it, so that the signatures of its thinking are kept. An error
    emission ends the fold with the stop reason ``aborted`` or ``error``.

    >>> fold_reply("m", [TextEmission("Hel"), TextEmission("lo")]).blocks
    (TextBlock(text='Hello'),)
    """
    fold = _Fold()
    for emission in emissions:
        match emission:
            case DoneEmission(reply=Reply() as reply):
                return reply
            case DoneEmission(reply=turn, usage=usage):
                has_calls = any(isinstance(block, ToolCallBlock) for block in turn.blocks)
                return Reply(model, turn.blocks, usage or fold.usage, _stop(fold.stop, has_calls))
            case ErrorEmission(error=error):
                fold.stop = "aborted" if error.kind == "aborted" else "error"
                break
            case WithdrawnEmission():
                fold = _Fold()
            case _:
                fold.add(emission)
    return Reply(model, fold.blocks(), fold.usage, _stop(fold.stop, bool(fold.names)))


class _Fold(Struct):
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
            ToolCallBlock(call_id, name, parse_arguments("".join(self.arguments.get(call_id, ()))))
            for call_id, name in self.names.items()
        )
        return (*prose, *calls)


def _stop(stop: StopReason, has_calls: bool) -> StopReason:
    return "tool_calls" if has_calls and stop == "complete" else stop


def parse_arguments(raw: str) -> Any:
    """Return the object that the argument text *raw* stands for, mended where that is clear.

    Blank text and ``null`` are ``{}``; other text, and values that are no objects, stay as they are.

    >>> parse_arguments('{"a": 1,}'), parse_arguments(" "), parse_arguments('{"a": ')
    ({'a': 1}, {}, '{"a": ')
    """
    if raw.strip() in ("", "null"):
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = raw
    return value if isinstance(value, dict) else mend_object(raw) or value


def contain_cancellation(invoke: Invoke) -> Invoke:
    """Return *invoke* with calls that fail where they would end as cancelled though their task was not.

    A ``CancelledError`` of an SDK passes every ``except Exception`` and would end a run that can go on.
    """
    # Imported on first use: this room's contract comes without an event loop.
    import asyncio

    async def emissions(conversation: Conversation, options: StreamOptions) -> AsyncGenerator[Emission, None]:
        try:
            async with emissions_of(invoke(conversation, options)) as inner:
                async for emission in inner:
                    yield emission
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise GatewayError(
                "transport", "the model call cancelled itself; try again", cause=error
            ) from error

    return lambda conversation, options: channel_of(lambda: emissions(conversation, options))


def with_fallback(first: Invoke, second: Invoke) -> Invoke:
    """Return an invoker that calls *second* when *first* fails, and warns, unless the call was cancelled.

    The emissions of *first* are held back until it is done, so it is for answers that nobody watches.
    """

    async def emissions(conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
        held: list[Emission] = []
        reason = "it gave no answer"
        try:
            held = [emission async for emission in contain_cancellation(first)(conversation, options)]
        except Exception as error:
            # A stream that breaks is a failure like any other.
            held, reason = [], str(error) or reason
        last = held[-1] if held else None
        was_aborted = isinstance(last, ErrorEmission) and last.error.kind == "aborted"
        if isinstance(last, DoneEmission) or was_aborted:
            for emission in held:
                yield emission
            return
        if options.on_warning is not None:
            reason = last.error.message if isinstance(last, ErrorEmission) else reason
            options.on_warning(f"the summarizer failed, and the session's own model is asked: {reason}")
        async for emission in second(conversation, options):
            yield emission

    return lambda conversation, options: channel_of(lambda: emissions(conversation, options))

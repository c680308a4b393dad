"""Emissions, the stream of a model call, and the reply that they add up to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar, Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.llmgateway.contract.blocks import AssistantTurn, Block
from sidecar.llmgateway.contract.model import GatewayError, StopReason, Usage


class Reply(Value):
    """A finished answer: its blocks, usage and stop reason."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    model: str
    blocks: tuple[Block, ...]
    usage: Usage
    stop: StopReason


class TextEmission(Value):
    """More prose."""

    kind: ClassVar[Literal["text"]] = "text"
    delta: str


class ThinkingEmission(Value):
    """More reasoning."""

    kind: ClassVar[Literal["thinking"]] = "thinking"
    delta: str


class ToolCallStartEmission(Value):
    """A tool call opens; its arguments follow as deltas under the same id."""

    kind: ClassVar[Literal["tool_call_start"]] = "tool_call_start"
    id: str
    name: str


class ToolCallDeltaEmission(Value):
    """More raw argument text of the call *id*."""

    kind: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"
    id: str
    args_delta: str


class UsageEmission(Value):
    """The usage of this call so far; a later figure replaces an earlier one."""

    kind: ClassVar[Literal["usage"]] = "usage"
    usage: Usage


class StopEmission(Value):
    """The reason why the model stopped."""

    kind: ClassVar[Literal["stop"]] = "stop"
    stop: StopReason


class WithdrawnEmission(Value):
    """The call failed and is made again: everything that it emitted before is taken back."""

    kind: ClassVar[Literal["withdrawn"]] = "withdrawn"


class DoneEmission(Value):
    """The whole answer; its blocks replace everything streamed before.

    *usage* belongs to an :class:`AssistantTurn`, which carries none of its own.
    """

    kind: ClassVar[Literal["done"]] = "done"
    reply: Reply | AssistantTurn
    usage: Usage | None = None


class ErrorEmission(Value):
    """The call failed."""

    kind: ClassVar[Literal["error"]] = "error"
    error: GatewayError


Emission: TypeAlias = (
    TextEmission
    | ThinkingEmission
    | ToolCallStartEmission
    | ToolCallDeltaEmission
    | UsageEmission
    | StopEmission
    | WithdrawnEmission
    | DoneEmission
    | ErrorEmission
)

Channel: TypeAlias = AsyncIterable[Emission]
"""One model call. Those of :func:`sidecar.llmgateway.channel_of` restart the call on each ``async for``."""


@asynccontextmanager
async def emissions_of(channel: Channel) -> AsyncIterator[AsyncIterator[Emission]]:
    """Read *channel* inside the block; its generator is closed at the end, however early that is."""
    emissions = aiter(channel)
    try:
        yield emissions
    finally:
        if isinstance(emissions, AsyncGenerator):
            await emissions.aclose()

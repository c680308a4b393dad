"""A model call that is made once what it is to be sent is ready.

Knows a conversation and a call, nothing of sessions or engines.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import Channel, Conversation, Emission, emissions_of

__all__ = ["call_when_ready"]


def call_when_ready(
    prepare: Callable[[], Awaitable[Conversation]], call: Callable[[Conversation], Channel]
) -> Channel:
    """Return the channel of *call*, made with what *prepare* returns; what either raises ends it."""
    return channel_of(lambda: _called(prepare, call))


async def _called(
    prepare: Callable[[], Awaitable[Conversation]], call: Callable[[Conversation], Channel]
) -> AsyncGenerator[Emission, None]:
    async with emissions_of(call(await prepare())) as emissions:
        async for emission in emissions:
            yield emission

"""Two models as one: the second answers where the first fails. For answers that nobody watches come in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    StreamOptions,
)

__all__ = ["falling_back"]

_Invoke: TypeAlias = Callable[[Conversation, StreamOptions], Channel]


def falling_back(first: _Invoke, second: _Invoke) -> _Invoke:
    """Return an invoker that asks *second* when *first* fails, unless the call was cancelled.

    What *first* says is held back until it is done.
    """

    async def emissions(conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
        held = await _heard(first(conversation, options))
        last = held[-1] if held else None
        was_aborted = isinstance(last, ErrorEmission) and last.error.kind == "aborted"
        if isinstance(last, DoneEmission) or was_aborted:
            for emission in held:
                yield emission
            return
        async for emission in second(conversation, options):
            yield emission

    return lambda conversation, options: channel_of(lambda: emissions(conversation, options))


async def _heard(channel: Channel) -> list[Emission]:
    """Return all that *channel* says; nothing when it breaks, which counts as a failure like any other."""
    try:
        return [emission async for emission in channel]
    except Exception:
        return []

"""One model call as a stream of signals. It keeps no state and looks at no emission."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sidecar.llmgateway.contract import Channel, emissions_of
from sidecar.runtime.contract import EmissionSignal, FaultSignal, RunError, Signal, StreamEndSignal

__all__ = ["drive_turn"]


async def drive_turn(channel: Channel) -> AsyncGenerator[Signal, None]:
    """Yield an emission signal for each emission of *channel*, then one stream end.

    The stream end also follows an error emission. An exception of the channel becomes a ``model_failed``
    fault instead, with no stream end; cancellation passes through. The channel's own generator is closed
    when this one is, however early.
    """
    try:
        async with emissions_of(channel) as emissions:
            async for emission in emissions:
                yield EmissionSignal(emission)
    except Exception as error:
        yield FaultSignal(RunError("model_failed", str(error) or type(error).__name__, error))
    else:
        yield StreamEndSignal()

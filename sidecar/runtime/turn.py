"""One model call as a stream of signals. It keeps no state, and interprets no emission.

It checks the types of each one, since an answer is folded long after it arrived: a delta that is no string
would make a history that nobody can read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Channel,
    DoneEmission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
    WithdrawnEmission,
    emissions_of,
)
from sidecar.runtime.contract import EmissionSignal, FaultSignal, RunError, Signal, StreamEndSignal

__all__ = ["drive_turn"]


async def drive_turn(channel: Channel) -> AsyncGenerator[Signal, None]:
    """Yield an emission signal for each emission of *channel*, then one stream end.

    The stream end also follows an error emission. An exception of the channel, and an object that is not an
    emission or has a field of another type, become a ``model_failed`` fault instead, with no stream end;
    cancellation passes through. The channel's own generator is closed when this one is, however early.
    """
    try:
        async with emissions_of(channel) as emissions:
            async for emission in emissions:
                match emission:
                    case (
                        TextEmission(delta=str())
                        | ThinkingEmission(delta=str())
                        | ToolCallDeltaEmission(id=str(), args_delta=str())
                        | ToolCallStartEmission(id=str(), name=str())
                        | UsageEmission(usage=Usage())
                        | StopEmission(stop=str())
                        | DoneEmission(reply=Reply() | AssistantTurn(), usage=Usage() | None)
                        | ErrorEmission(error=GatewayError())
                        | WithdrawnEmission()
                    ):
                        yield EmissionSignal(emission)
                    case _:
                        found = type(emission).__name__  # type: ignore[unreachable]  # an adapter may yield anything
                        raise TypeError(f"the model's stream has a {found} that is not a valid emission")
    except Exception as error:
        yield FaultSignal(RunError("model_failed", str(error) or type(error).__name__, error))
    else:
        yield StreamEndSignal()

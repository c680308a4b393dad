"""Ends a model call that says nothing for too long, so that no turn waits for ever.

Knows a stream and a limit, nothing of sessions; what a call says it passes on as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import Channel, Emission, emissions_of, gateway_error

__all__ = ["with_idle_timeout"]


def with_idle_timeout(channel: Channel, limit_s: float) -> Channel:
    """Return *channel*, which raises a GatewayError once it has said nothing for *limit_s* seconds.

    The time between two emissions counts, not that of the whole call. The call itself is ended then.
    """
    return channel_of(lambda: _bounded(channel, limit_s))


async def _bounded(channel: Channel, limit_s: float) -> AsyncGenerator[Emission, None]:
    async with emissions_of(channel) as emissions:
        while True:
            try:
                async with asyncio.timeout(limit_s) as limit:
                    emission = await anext(emissions)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if not limit.expired():  # the call's own words, not ours
                    raise
                raise gateway_error(
                    "transport",
                    f"the model said nothing for {limit_s:g} s; try again, or choose another model",
                    cause=error,
                ) from None
            yield emission

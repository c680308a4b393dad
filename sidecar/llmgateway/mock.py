"""``mock-1``: fixed text and a fixed usage, for a client's first steps.

It never looks at what it is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    Reply,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    Usage,
    UsageEmission,
    gateway_error,
)

__all__ = ["mock_model"]

_WORDS: Final = ("Hello ", "from ", "the ", "mock ", "model.")
_USAGE: Final = Usage(input_tokens=8, output_tokens=5)


def mock_model(conversation: Conversation, options: StreamOptions) -> Channel:
    """Say the same words to every conversation; 8 tokens in, 5 out (facts 1.1)."""
    return channel_of(lambda: _speak(options))


async def _speak(options: StreamOptions) -> AsyncIterator[Emission]:
    for word in _WORDS:
        if options.cancel is not None and options.cancel.cancelled:
            yield ErrorEmission(gateway_error("aborted", "the call was cancelled", provider="mock"))
            return
        yield TextEmission(word)
    yield UsageEmission(_USAGE)
    yield StopEmission("complete")
    yield DoneEmission(Reply("mock-1", (TextBlock("".join(_WORDS)),), _USAGE, "complete"))

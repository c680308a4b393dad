"""Calls of a model by its id: card, provider, channel.

The table of providers is an argument that the caller may extend. A model that no provider serves is an error
emission, never an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar.llmgateway.catalog import BUILT_IN, Catalog
from sidecar.llmgateway.channel import Invoke, channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    Reply,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    Usage,
    UsageEmission,
    gateway_error,
)

ProviderFactory: TypeAlias = Callable[[ModelCard], Invoke]
"""Makes the invoker of one card. Contract: opens no connection; raises GatewayError when it cannot serve."""

_MOCK_WORDS: Final = ("Hello ", "from ", "the ", "mock ", "model.")
_MOCK_USAGE: Final = Usage(input_tokens=8, output_tokens=5)


def mock_model(conversation: Conversation, options: StreamOptions) -> Channel:
    """Stream ``mock-1``: the same words for every conversation, for a client's first steps."""

    async def emissions() -> AsyncIterator[Emission]:
        for word in _MOCK_WORDS:
            if options.cancel is not None and options.cancel.cancelled:
                yield ErrorEmission(gateway_error("aborted", "the call was cancelled", provider="mock"))
                return
            yield TextEmission(word)
        yield UsageEmission(_MOCK_USAGE)
        yield StopEmission("complete")
        yield DoneEmission(Reply("mock-1", (TextBlock("".join(_MOCK_WORDS)),), _MOCK_USAGE, "complete"))

    return channel_of(emissions)


def offline_invoker(card: ModelCard) -> Invoke:
    """Return the invoker of ``offline-1``; the model is imported when the first call needs it."""
    from sidecar.llmgateway.offline import offline_model

    return offline_model()


PROVIDERS: Final[Mapping[str, ProviderFactory]] = MappingProxyType(
    {"mock": lambda card: mock_model, "offline": offline_invoker}
)
"""The providers that need neither a key nor a network, by ``ModelCard.provider``."""


def stream(
    model: str | ModelCard,
    conversation: Conversation,
    options: StreamOptions | None = None,
    *,
    catalog: Catalog = BUILT_IN,
    providers: Mapping[str, ProviderFactory] = PROVIDERS,
) -> Channel:
    """Call *model* and return its channel. Never raises.

    ``functools.partial(stream, "offline-1")`` is a model invoker. A model of a provider on the network is
    called with the user's own key over a connection of its own; for many calls use a ``ModelRegistry``.

    Args:
        model: an id in *catalog*, a card, or ``provider:model``.
        conversation: the conversation to answer.
        options: the options of the call; None for the defaults.
        catalog: the cards of models by id.
        providers: the factories of invokers by the provider of a card.

    Returns:
        The channel of the call. For an unknown model or provider it has one ``unsupported`` error emission.
    """
    card = model if isinstance(model, ModelCard) else catalog.by_id.get(model)
    factory = providers.get(card.provider) if card is not None else None
    options = options or StreamOptions()
    if factory is not None and card is not None:
        try:
            return factory(card)(conversation, options)
        except GatewayError as error:
            emission = ErrorEmission(error)

            async def emissions() -> AsyncIterator[Emission]:
                yield emission

            return channel_of(emissions)
    if card is None:
        known = ", ".join(each.id for each in catalog.cards if each.provider != "mock")
        hint = f"known models: {known}, and provider:model, such as openai:gpt-5"
        unserved = gateway_error("unsupported", f"no model {model!r} is known; {hint}")
    else:
        found = f"model {card.id!r} is served by {card.provider!r}, which is not set up here"
        hint = f"set it up, or choose a model of {', '.join(sorted(providers))}"
        unserved = gateway_error("unsupported", f"{found}; {hint}", provider=card.provider)
    return _call_once(model, conversation, options, unserved)


def _call_once(
    model: str | ModelCard, conversation: Conversation, options: StreamOptions, unserved: GatewayError
) -> Channel:
    """Return a call of *model* at a provider on the network; *unserved* is the error without one."""

    async def emissions() -> AsyncIterator[Emission]:
        # Imported on first use: importers of the contract should not pay for a network.
        from sidecar.llmgateway.routing import open_once

        opened = await asyncio.to_thread(open_once, model)
        if opened is None:
            yield ErrorEmission(unserved)
            return
        invoke, close = opened
        try:
            async for emission in invoke(conversation, options):
                yield emission
        finally:
            await close()

    return channel_of(emissions)

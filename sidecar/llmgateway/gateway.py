"""The way to a model by its id: card, provider, channel.

Which providers there are is a table that the caller may extend; a model nobody serves is an error emission,
never an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar.llmgateway.catalog import BUILT_IN, Catalog
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    StreamOptions,
    gateway_error,
)
from sidecar.llmgateway.mock import mock_model

__all__ = ["PROVIDERS", "Invoke", "ProviderFactory", "stream"]

Invoke: TypeAlias = Callable[[Conversation, StreamOptions], Channel]
"""How a model is called. Contract: that of ``ModelInvoker`` in ``sidecar.runtime.contract``."""

ProviderFactory: TypeAlias = Callable[[ModelCard], Invoke]
"""Makes the invoker of one card. Contract: opens no connection; raises GatewayError when it cannot serve."""


def _mock(card: ModelCard) -> Invoke:
    return mock_model


def _offline(card: ModelCard) -> Invoke:
    # Imported on first use: the contract's importers should not pay for a model.
    from sidecar.llmgateway.offline import offline_model

    return offline_model()


PROVIDERS: Final[Mapping[str, ProviderFactory]] = MappingProxyType({"mock": _mock, "offline": _offline})
"""The providers that need neither a key nor a network, by ``ModelCard.provider``."""


def stream(
    model: str | ModelCard,
    conversation: Conversation,
    options: StreamOptions | None = None,
    *,
    catalog: Catalog = BUILT_IN,
    providers: Mapping[str, ProviderFactory] = PROVIDERS,
) -> Channel:
    """Call *model*, an id in *catalog*, a card or ``provider:model``, and return its channel.

    ``functools.partial(stream, "offline-1")`` is a model invoker. A model or provider that is not known
    gives a channel of one ``unsupported`` error emission. Never raises. A model of a provider of the network
    is called with the user's own key over a connection of its own; who calls often uses a ``ModelRegistry``.
    """
    card = model if isinstance(model, ModelCard) else catalog.get(model)
    factory = providers.get(card.provider) if card is not None else None
    options = options or StreamOptions()
    if factory is None or card is None:
        unserved = _unknown(model, catalog) if card is None else _unserved(card, providers)
        return channel_of(lambda: _call_once(model, conversation, options, unserved))
    try:
        return factory(card)(conversation, options)
    except GatewayError as error:
        return _failed(error)


async def _call_once(
    model: str | ModelCard, conversation: Conversation, options: StreamOptions, unserved: GatewayError
) -> AsyncIterator[Emission]:
    """Call *model* of a provider of the network; *unserved* says that there is none."""
    # Imported on first use: the contract's importers should not pay for a network.
    from sidecar.llmgateway.once import open_once

    opened = await asyncio.to_thread(open_once, model)
    if opened is None:
        yield ErrorEmission(unserved)
        return
    try:
        async for emission in opened.invoke(conversation, options):
            yield emission
    finally:
        await opened.close()


def _unknown(model: str | ModelCard, catalog: Catalog) -> GatewayError:
    known = ", ".join(each.id for each in catalog.cards)
    found = f"no model {model!r} is known; known models: {known}, and provider:model, such as openai:gpt-5"
    return gateway_error("unsupported", found)


def _unserved(card: ModelCard, providers: Mapping[str, ProviderFactory]) -> GatewayError:
    found = f"model {card.id!r} is served by {card.provider!r}, which is not set up here"
    hint = f"set it up, or choose a model of {', '.join(sorted(providers))}"
    return gateway_error("unsupported", f"{found}; {hint}", provider=card.provider)


def _failed(error: GatewayError) -> Channel:
    async def emissions() -> AsyncIterator[Emission]:
        yield ErrorEmission(error)

    return channel_of(emissions)

"""The way to a model by its id: card, provider, channel.

Which providers there are is a table that the caller may extend; a model nobody serves is an error emission,
never an exception.
"""

from __future__ import annotations

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
    """Call *model*, an id in *catalog* or a card, and return its channel.

    ``functools.partial(stream, "offline-1")`` is a model invoker. A model or provider that is not known
    gives a channel of one ``unsupported`` error emission. Never raises.
    """
    card = model if isinstance(model, ModelCard) else catalog.get(model)
    if card is None:
        known = ", ".join(each.id for each in catalog.cards)
        return _failed(gateway_error("unsupported", f"no model {model!r} is known; known models: {known}"))
    factory = providers.get(card.provider)
    if factory is None:
        return _failed(_unserved(card, providers))
    try:
        return factory(card)(conversation, options or StreamOptions())
    except GatewayError as error:
        return _failed(error)


def _unserved(card: ModelCard, providers: Mapping[str, ProviderFactory]) -> GatewayError:
    found = f"model {card.id!r} is served by {card.provider!r}, which is not set up here"
    hint = f"set it up, or choose a model of {', '.join(sorted(providers))}"
    return gateway_error("unsupported", f"{found}; {hint}", provider=card.provider)


def _failed(error: GatewayError) -> Channel:
    async def emissions() -> AsyncIterator[Emission]:
        yield ErrorEmission(error)

    return channel_of(emissions)

"""Calls of a model by its id: card, provider, channel.

The table of providers is an argument that the caller may extend. A model that no provider serves is an error
emission, never an exception.

A route is the provider and the card of a model by its name, under the user's settings. A name that can be
served may still have no card: its window is unknown then. A look-up never raises, and uses no network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar._internal.env import indusagi_home
from sidecar._internal.values import Value
from sidecar.llmgateway.catalog import BUILT_IN, card_of, output_limit, published_card
from sidecar.llmgateway.channel import Invoke, channel_of
from sidecar.llmgateway.config import ModelEntry, ModelSettings
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    CostSheet,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Modality,
    ModelCard,
    Reply,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    Usage,
    UsageEmission,
)
from sidecar.llmgateway.credentials import Credentials, system_keyring
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, parse_name
from sidecar.llmgateway.providers import ProviderModels
from sidecar.llmgateway.published import BUNDLED, PublishedModels

_MOCK_WORDS: Final = ("Hello ", "from ", "the ", "mock ", "model.")
_MOCK_USAGE: Final = Usage(input_tokens=8, output_tokens=5)

_FREE: Final = CostSheet(0.0, 0.0)
_NO_ENTRY: Final = ModelEntry()
_Learned: TypeAlias = tuple[int | None, frozenset[str] | None]
"""The window and the capabilities that the server of a route has published, None for unknown."""


def mock_model(conversation: Conversation, options: StreamOptions) -> Channel:
    """Stream ``mock-1``: the same words for every conversation, for a client's first steps."""

    async def emissions() -> AsyncIterator[Emission]:
        for word in _MOCK_WORDS:
            if options.cancel is not None and options.cancel.cancelled:
                yield ErrorEmission(GatewayError("aborted", "the call was cancelled", provider="mock"))
                return
            yield TextEmission(word)
        yield UsageEmission(_MOCK_USAGE)
        yield StopEmission("complete")
        yield DoneEmission(Reply("mock-1", (TextBlock("".join(_MOCK_WORDS)),), _MOCK_USAGE, "complete"))

    return channel_of(emissions)


def offline_provider(is_program: Callable[[str], bool]) -> Invoke:
    """Return ``offline-1``, which is imported when the first call needs it.

    *is_program* says whether a program of that name is installed. Contract: never raises.
    """

    def invoke(conversation: Conversation, options: StreamOptions) -> Channel:
        from sidecar.llmgateway.offline import offline_model

        return offline_model(is_program)(conversation, options)

    return invoke


PROVIDERS: Final[Mapping[str, Invoke]] = MappingProxyType(
    {"mock": mock_model, "offline": offline_provider(lambda name: False)}
)
"""The providers that need neither a key nor a network, by ``ModelCard.provider``."""


def stream(
    model: str | ModelCard,
    conversation: Conversation,
    options: StreamOptions | None = None,
    *,
    catalog: Mapping[str, ModelCard] = BUILT_IN,
    providers: Mapping[str, Invoke] = PROVIDERS,
) -> Channel:
    """Call *model* and return its channel. Never raises.

    ``functools.partial(stream, "offline-1")`` is a model invoker. A model of a provider on the network is
    called with the user's own key over a connection of its own; for many calls use a ``ModelRegistry``.

    Args:
        model: an id in *catalog*, a card, or ``provider:model``.
        conversation: the conversation to answer.
        options: the options of the call; None for the defaults.
        catalog: the cards of models by id.
        providers: the invokers by the provider of a card.

    Returns:
        The channel of the call. For an unknown model or provider it has one ``unsupported`` error emission.
    """
    card = model if isinstance(model, ModelCard) else catalog.get(model)
    options = options or StreamOptions()
    if card is not None and card.provider in providers:
        return providers[card.provider](conversation, options)
    if card is None:
        known = ", ".join(each.id for each in catalog.values() if each.provider != "mock")
        hint = f"known models: {known}, and provider:model, such as openai:gpt-5"
        unserved = GatewayError("unsupported", f"no model {model!r} is known; {hint}")
    else:
        found = f"model {card.id!r} is served by {card.provider!r}, which is not set up here"
        hint = f"set it up, or choose a model of {', '.join(sorted(providers))}"
        unserved = GatewayError("unsupported", f"{found}; {hint}", provider=card.provider)

    async def emissions() -> AsyncIterator[Emission]:
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


class Route(Value):
    """The model *model* of *provider*, under the *name* that the user wrote."""

    name: str
    provider: Provider
    model: str

    @property
    def bare_card(self) -> ModelCard:
        """The card of a model without one; window and limit are 0, for unknown."""
        return ModelCard(
            self.name,
            self.provider.id,
            self.provider.api,
            self.model,
            context_window=0,
            max_output_tokens=0,
            modalities=("text", "image"),
            reasoning=False,
            cost=_FREE,
            wire_id=self.model,
        )


class Routes:
    """The names that can be served.

    *windows* are in tokens by route, *capabilities* are words of Ollama's by route; servers publish both, so
    that they may grow.
    """

    def __init__(
        self,
        settings: ModelSettings | None = None,
        windows: Mapping[Route, int] | None = None,
        capabilities: Mapping[Route, frozenset[str]] | None = None,
        published: PublishedModels = BUNDLED,
    ) -> None:
        self._settings = settings or ModelSettings()
        self._published = published
        self._windows = windows if windows is not None else {}
        self._capabilities = capabilities if capabilities is not None else {}
        self.providers = {**PROVIDERS_BY_NAME, **self._settings.providers}
        # A session looks up its card many times for each model call, and a router's price list takes 0.8 ms.
        self._found: dict[str, Route | None] = {}
        self._cards: dict[str, tuple[_Learned, ModelCard | None]] = {}

    def find(self, name: str) -> Route | None:
        """Return the route of *name*, or None when no provider serves it.

        >>> Routes().find("ollama:qwen3:8b").model, Routes().find("nobody:x")
        ('qwen3:8b', None)
        """
        if name in self._found:
            return self._found[name]
        parts, found = parse_name(name), None
        entry = self._settings.models.get(name, _NO_ENTRY)
        provider = self.providers.get(entry.provider or parts.provider or "")
        if provider is not None:
            model = entry.name or (parts.model if parts.provider == provider.id else name)
            found = Route(name, provider, model)
        elif parts.provider is None and entry.provider is None:
            card = published_card(name, self._published)
            if card is not None:
                found = Route(name, self.providers[card.provider], entry.name or card.wire_id)
        self._found[name] = found
        return found

    def card(self, name: str) -> ModelCard | None:
        """Return the card of *name*: by the user's settings, then the server, then the published prices."""
        route = self.find(name)
        if route is None:
            return None
        learned = self._windows.get(route), self._capabilities.get(route)
        known = self._cards.get(name)
        if known is None or known[0] != learned:
            known = self._cards[name] = learned, self.make_card(route, learned)
        return known[1]

    def make_card(self, route: Route, learned: _Learned) -> ModelCard | None:
        """Return the card of *route*; its server has published *learned*."""
        learned_window, able = learned
        entry = self._settings.facts_about(route.name, route.provider.id, route.model)
        card = card_of(route.name, route.provider, route.model, self._published)
        window = entry.context_window or learned_window or (card.context_window if card else 0)
        if not window:
            return None
        if card is None or card.context_window != window:
            known = card or route.bare_card
            guess = output_limit(window)
            limit = min(card.max_output_tokens, guess) if card is not None else guess
            card = replace(known, context_window=window, max_output_tokens=limit)
        if able is not None:
            seen: tuple[Modality, ...] = ("text", "image") if "vision" in able else ("text",)
            card = replace(card, reasoning="thinking" in able, modalities=seen)
        modalities: tuple[Modality, ...] = ("text", "image") if entry.images else ("text",)
        cost = entry.cost
        return replace(
            card,
            max_output_tokens=entry.max_output_tokens or card.max_output_tokens,
            reasoning=card.reasoning if entry.reasoning is None else entry.reasoning,
            modalities=card.modalities if entry.images is None else modalities,
            cost=cost.sheet() if cost else card.cost,
        )


def open_once(model: str | ModelCard) -> tuple[Invoke, Callable[[], Awaitable[None]]] | None:
    """Return an invoker for *model*, a name or a card, with the user's own key, for a single call.

    Blocks for as long as a price list takes to load.

    Returns:
        The invoker, and how to close its connection on the event loop of the call; None when no provider
        serves *model*.
    """
    if isinstance(model, ModelCard):
        card, provider = model, PROVIDERS_BY_NAME.get(model.provider)
    else:
        routes = Routes()
        route = routes.find(model)
        if route is None:
            return None
        card, provider = routes.card(model) or route.bare_card, route.provider
    if provider is None:
        return None
    models = ProviderModels(Credentials(indusagi_home(), system_keyring()))
    return models.invoker(card, provider), models.aclose

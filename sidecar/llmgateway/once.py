"""A single call to a model of the network, for a program that holds no registry of models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from sidecar._internal.env import indusagi_home
from sidecar.llmgateway.contract import Channel, Conversation, ModelCard, StreamOptions
from sidecar.llmgateway.credentials import Credentials, system_keyring
from sidecar.llmgateway.names import PROVIDERS_BY_NAME
from sidecar.llmgateway.providers import Serving
from sidecar.llmgateway.routing import Routes

__all__ = ["OpenedModel", "open_once"]

_Invoke: TypeAlias = Callable[[Conversation, StreamOptions], Channel]


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model that can be called; *close* gives up its connection, on the event loop that called it."""

    invoke: _Invoke
    close: Callable[[], Awaitable[None]]


def open_once(model: str | ModelCard) -> OpenedModel | None:
    """Return *model*, a name or a card, with the user's own key; None when nobody serves it.

    Blocks for as long as a price list takes to load.
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
    serving = Serving(Credentials(indusagi_home(), system_keyring()))
    return OpenedModel(serving.invoker(card, provider), serving.aclose)

"""All models of all providers as invokers: which adapter, at which address, over which client.

An SDK is not imported before one of its models is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sidecar._internal.env import read_raw
from sidecar.llmgateway.contract import ApiKind, Channel, Conversation, ModelCard, StreamOptions
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import ANTHROPIC, GOOGLE, OPENAI_CHAT, OPENAI_RESPONSES, PYDANTIC_AI, Provider
from sidecar.llmgateway.providers.adapter import Adapter
from sidecar.llmgateway.providers.anthropic_messages import AnthropicMessages
from sidecar.llmgateway.providers.calling import ProviderModel, Retrying
from sidecar.llmgateway.providers.connecting import Clients
from sidecar.llmgateway.providers.google_generate import GoogleGenerate
from sidecar.llmgateway.providers.openai_chat import OpenAIChat
from sidecar.llmgateway.providers.openai_responses import OpenAIResponses
from sidecar.llmgateway.providers.pydantic_ai_direct import PydanticAIDirect

__all__ = ["Address", "Serving", "address_of"]

_Invoke: TypeAlias = Callable[[Conversation, StreamOptions], Channel]

_ADAPTERS: Final[Mapping[ApiKind, Callable[[], Adapter[Any, Any]]]] = MappingProxyType(
    {
        OPENAI_RESPONSES: OpenAIResponses,
        OPENAI_CHAT: OpenAIChat,
        ANTHROPIC: AnthropicMessages,
        GOOGLE: GoogleGenerate,
        PYDANTIC_AI: PydanticAIDirect,
    }
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a provider is reached now, and what is spoken there; *base_url* None is the provider's own."""

    base_url: str | None
    api: ApiKind


def address_of(provider: Provider) -> Address:
    """Return where *provider* is reached, as the environment says."""
    moved = (read_raw(provider.base_url_env) or "").strip() if provider.base_url_env else ""
    is_elsewhere = bool(moved) and "api.openai.com" not in moved
    api = provider.other_api if is_elsewhere and provider.other_api else provider.api
    return Address(moved or provider.base_url, api)


class Serving:
    """Makes each invoker once, and closes what they opened."""

    def __init__(self, credentials: Credentials, retrying: Retrying | None = None) -> None:
        self._credentials = credentials
        self._retrying = retrying
        self._clients: dict[tuple[Provider, Address], Clients[Any]] = {}
        self._models: dict[tuple[ModelCard, Provider, Address], _Invoke] = {}

    def invoker(self, card: ModelCard, provider: Provider) -> _Invoke:
        """Return how to call the model of *card*, which *provider* serves."""
        address = address_of(provider)
        key = (card, provider, address)
        if key not in self._models:
            adapter = _ADAPTERS[address.api]()
            clients = self._clients.setdefault(
                (provider, address),
                Clients(provider, address.base_url, self._credentials, adapter.connect),
            )
            self._models[key] = ProviderModel(card, adapter, clients, self._retrying)
        return self._models[key]

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await asyncio.gather(*(clients.aclose() for clients in tuple(self._clients.values())))

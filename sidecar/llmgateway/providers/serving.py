"""All models of all providers as invokers: the adapter, address and clients of each.

An SDK is not imported before one of its models is chosen for a session, or called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sidecar._internal.env import read_raw
from sidecar._internal.loading import defer_import
from sidecar._internal.values import Value
from sidecar.llmgateway.channel import Invoke
from sidecar.llmgateway.contract import ApiKind, ModelCard
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import (
    ANTHROPIC,
    GOOGLE,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    PYDANTIC_AI,
    Provider,
    library_of,
)
from sidecar.llmgateway.providers.adapter import IDLE_TIMEOUT_S, Adapter
from sidecar.llmgateway.providers.clients import ClientPool

if TYPE_CHECKING:  # loaded with the first invoker
    from sidecar.llmgateway.providers.calling import RetryDeps

_FOLDER: Final = "sidecar.llmgateway.providers"

ADAPTERS: Final[Mapping[ApiKind, Callable[[], Adapter[Any, Any]]]] = MappingProxyType(
    {
        OPENAI_RESPONSES: defer_import(f"{_FOLDER}.openai_responses", "OpenAIResponses"),
        OPENAI_CHAT: defer_import(f"{_FOLDER}.openai_chat", "OpenAIChat"),
        ANTHROPIC: defer_import(f"{_FOLDER}.anthropic_messages", "AnthropicMessages"),
        GOOGLE: defer_import(f"{_FOLDER}.google_generate", "GoogleGenerate"),
        OLLAMA: defer_import(f"{_FOLDER}.ollama_chat", "OllamaChat"),
        PYDANTIC_AI: defer_import(f"{_FOLDER}.pydantic_ai_direct", "PydanticAIDirect"),
    }
)
"""The adapter of each wire format, loaded with its first model."""


_OLLAMA_PORT: Final = 11434


class ApiAddress(Value):
    """The present address of a provider and the wire format there; *base_url* None is its own address."""

    base_url: str | None
    api: ApiKind


def address_of(provider: Provider) -> ApiAddress:
    """Return the address of *provider*, which an environment variable may move."""
    moved = (read_raw(provider.base_url_env) or "").strip() if provider.base_url_env else ""
    host = (read_raw(provider.host_env) or "").strip() if provider.host_env else ""
    moved = moved or (url_of_host(host) if host else "")
    is_elsewhere = bool(moved) and "api.openai.com" not in moved
    api = provider.other_api if is_elsewhere and provider.other_api else provider.api
    return ApiAddress(moved or provider.base_url, api)


def url_of_host(host: str) -> str:
    """Return the address of the Ollama server at *host*, in the forms that Ollama itself takes.

    >>> url_of_host("0.0.0.0"), url_of_host("box:1234"), url_of_host("https://models.example.com")
    ('http://127.0.0.1:11434/v1', 'http://box:1234/v1', 'https://models.example.com:443/v1')
    """
    scheme, found, rest = host.rpartition("://")
    parts = urlsplit(f"//{rest}")
    try:
        port = parts.port
    except ValueError:
        port = None
    port = port or ({"http": 80, "https": 443}.get(scheme, _OLLAMA_PORT) if found else _OLLAMA_PORT)
    # A server that listens everywhere is reached on this machine.
    name = parts.hostname if parts.hostname not in (None, "0.0.0.0", "::") else "127.0.0.1"
    return (
        f"{scheme or 'http'}://{f'[{name}]' if ':' in str(name) else name}:{port}{parts.path.rstrip('/')}/v1"
    )


class ProviderModels:
    """The models of all providers. Each invoker is made once; :meth:`aclose` closes their connections."""

    def __init__(
        self,
        credentials: Credentials,
        retries: RetryDeps | None = None,
        idle_timeout_s: float | None = None,
    ) -> None:
        self._credentials = credentials
        self._idle_timeout_s = idle_timeout_s or IDLE_TIMEOUT_S
        self._retries = retries
        self._clients: dict[tuple[Provider, ApiAddress], ClientPool[Any]] = {}
        self._models: dict[tuple[ModelCard, Provider, ApiAddress], Invoke] = {}

    def invoker(self, card: ModelCard, provider: Provider) -> Invoke:
        """Return the invoker for the model of *card*, which *provider* serves."""
        address = address_of(provider)
        key = (card, provider, address)
        if key not in self._models:
            from sidecar.llmgateway.providers.calling import ProviderModel

            clients = self._find_clients(provider, address)
            self._models[key] = ProviderModel(card, ADAPTERS[address.api](), clients, self._retries)
        return self._models[key]

    def load(self, provider: Provider) -> None:
        """Load the modules that the first call of *provider* needs; blocks.

        Raises:
            ImportError: its extra is not installed.
            GatewayError: the file of keys cannot be used.
        """
        key = self._credentials.without_keyring().find(provider)
        import_module(library_of(provider, has_key=key is not None))
        ADAPTERS[address_of(provider).api]()
        import_module(f"{_FOLDER}.calling")

    def warm_up(self, provider: Provider) -> None:
        """Begin to make a client of *provider*; see :meth:`ClientPool.warm_up`."""
        self._find_clients(provider, address_of(provider)).warm_up()

    def _find_clients(self, provider: Provider, address: ApiAddress) -> ClientPool[Any]:
        if (provider, address) not in self._clients:
            connect = ADAPTERS[address.api]().connect
            self._clients[provider, address] = ClientPool(
                provider, address.base_url, self._credentials, connect, self._idle_timeout_s
            )
        return self._clients[provider, address]

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await asyncio.gather(*(clients.aclose() for clients in tuple(self._clients.values())))

"""All models of all providers as invokers: the adapter, address and clients of each.

The clients of a provider are made in a thread, one for each event loop and key: when a session has chosen a
model (:meth:`ClientPool.warm_up`), else when a call needs them. Importing an SDK or an HTTP client takes
tenths of a second, which the event loop must not spend, and happens no earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from sidecar._internal.env import read_raw
from sidecar._internal.loading import defer_import, install_command
from sidecar._internal.secrets import mask_secrets
from sidecar._internal.values import Value
from sidecar.llmgateway.channel import Invoke
from sidecar.llmgateway.contract import ApiKind, GatewayError, ModelCard
from sidecar.llmgateway.credentials import Credentials, Key, checked_key
from sidecar.llmgateway.names import (
    ANTHROPIC,
    EXTRAS,
    GOOGLE,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    PYDANTIC_AI,
    Provider,
    library_of,
)
from sidecar.llmgateway.providers.adapter import IDLE_TIMEOUT_S, Adapter, Endpoint, SdkClient

if TYPE_CHECKING:
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

ClientT = TypeVar("ClientT")
_Opened: TypeAlias = tuple[Endpoint, SdkClient[ClientT]]


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


class ClientPool(Generic[ClientT]):
    """Clients for one address of *provider*. *connect* makes a client, and blocks."""

    def __init__(
        self,
        provider: Provider,
        base_url: str | None,
        credentials: Credentials,
        connect: Callable[[Endpoint], SdkClient[ClientT]],
        idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> None:
        self.provider = provider
        self.base_url = base_url
        self._credentials = credentials
        self.idle_timeout_s = idle_timeout_s
        self._connect = connect
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients[ClientT]] = (
            WeakKeyDictionary()
        )

    async def get(self, api_key: str | None = None) -> _Opened[ClientT]:
        """Return an endpoint and a client for it, with *api_key* or, when None, the user's own key.

        Raises:
            GatewayError: ``unsupported`` when the SDK is not installed or no client can be made with the
                environment, ``auth`` when there is no key.
        """
        tasks = self._of_this_loop().tasks
        if (early := tasks.get(None)) is not None and not early.done():
            # It may fail for want of a key that the user is asked for only now.
            await asyncio.wait((early,))
        task = tasks.get(api_key)
        if task is None or _has_failed(task):

            def find_key() -> Key | None:
                if api_key:
                    return checked_key(Key(api_key, "the call"), self.provider.id)
                return self._credentials.find(self.provider)

            task = self._start(api_key, find_key)
        return await asyncio.shield(task)

    def warm_up(self) -> None:
        """Begin to load the modules of the first call, so that it need not wait. Never raises.

        With a key at hand the client is made too. The keyring is not searched, because it may ask its user to
        unlock it, nor are credentials of a cloud: no connection is opened before a call. The first call
        repeats a failed attempt.
        """
        provider, keys = self.provider, self._credentials

        def find_key_at_hand() -> Key | None:
            key = keys.without_keyring().find(provider)
            if key is None and (provider.needs_key or keys.has_keyring):
                import_module(library_of(provider, has_key=False))
                raise GatewayError("auth", "no key is at hand", provider=provider.id)
            return key

        if not self._of_this_loop().tasks:
            self._start(None, find_key_at_hand)

    def _start(
        self, api_key: str | None, find_key: Callable[[], Key | None]
    ) -> asyncio.Task[_Opened[ClientT]]:
        """Begin to make the client for *api_key* in a thread."""
        provider = self.provider

        def connect() -> _Opened[ClientT]:
            if not is_installed(provider):
                extra = provider.extra
                message = f"{provider.id} needs the extra [{extra}]; run: {install_command(extra)}"
                raise GatewayError("unsupported", message, provider=provider.id)
            endpoint = Endpoint(provider, self.base_url, find_key(), self.idle_timeout_s)
            try:
                return endpoint, self._connect(endpoint)
            except (ImportError, OSError, ValueError) as error:
                raise setup_error(error, provider.id) from error

        task = asyncio.create_task(asyncio.to_thread(connect))
        # The caller may be gone before it fails; its failure is looked at in any case.
        task.add_done_callback(_has_failed)
        self._of_this_loop().tasks[api_key] = task
        return task

    def forget(self, api_key: str | None) -> None:
        """Look the key up again for the next call, because the provider refused this one.

        Calls under way keep its client until the pool is closed.
        """
        clients = self._of_this_loop()
        if api_key in clients.tasks:
            clients.retired.append(clients.tasks.pop(api_key))

    async def aclose(self) -> None:
        """Close the clients of this event loop."""
        clients = self._by_loop.pop(asyncio.get_running_loop(), None)
        if clients is not None:
            tasks = (*clients.tasks.values(), *clients.retired)
            for task in tasks:
                # One that is still being made has no connection, and nobody waits for it.
                task.cancel()
            for opened in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(opened, BaseException):
                    await opened[1].close()

    def _of_this_loop(self) -> _LoopClients[ClientT]:
        return self._by_loop.setdefault(asyncio.get_running_loop(), _LoopClients())


class _LoopClients(Generic[ClientT]):
    """The clients of one event loop, by their key, as the tasks that make them."""

    def __init__(self) -> None:
        self.tasks: dict[str | None, asyncio.Task[_Opened[ClientT]]] = {}
        self.retired: list[asyncio.Task[_Opened[ClientT]]] = []


def is_installed(provider: Provider) -> bool:
    """Whether the module that comes with the extra of *provider* can be imported."""
    top, _, rest = EXTRAS[provider.api][1].partition(".")
    if find_spec(top) is None:
        return False
    return not rest or find_spec(f"{top}.{rest}") is not None


def setup_error(error: Exception, provider: str) -> GatewayError:
    """Return the error of a call for which no client could be made; no connection was tried.

    >>> setup_error(ValueError("Unknown scheme for proxy URL"), "openai").message
    'openai cannot be called: a proxy in the environment cannot be used (Unknown scheme for proxy URL)'
    """
    reason = mask_secrets(str(error))
    if isinstance(error, ImportError) and "SOCKS" in reason:
        found = "the proxy in the environment speaks SOCKS; run: pip install socksio"
    elif isinstance(error, ImportError):
        found = f"a package of it cannot be imported ({reason})"
    elif isinstance(error, OSError):
        named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if read_raw(name)]
        where = f"the certificates at {' or '.join(named)}" if named else "the certificates of this machine"
        found = f"{where} cannot be read ({error.strerror or reason})"
    elif "proxy" in reason.lower():
        found = f"a proxy in the environment cannot be used ({reason})"
    else:
        found = f"its client cannot be made ({reason})"
    return GatewayError("unsupported", f"{provider} cannot be called: {found}", provider=provider)


def _has_failed(task: asyncio.Task[_Opened[ClientT]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

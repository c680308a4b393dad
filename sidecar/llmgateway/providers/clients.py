"""The clients of one provider: made in a thread, one for each event loop and key.

They are made when a session has chosen a model (:meth:`ClientPool.warm_up`), else when a call needs them.

Importing an SDK or an HTTP client takes tenths of a second, which the event loop must not spend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from sidecar._internal.env import read_raw
from sidecar._internal.loading import install_command
from sidecar._internal.secrets import mask_secrets
from sidecar.llmgateway.contract import GatewayError, gateway_error
from sidecar.llmgateway.credentials import Credentials, Key, checked_key
from sidecar.llmgateway.names import Provider, extra_of, library_of
from sidecar.llmgateway.providers.adapter import IDLE_TIMEOUT_S, Endpoint, SdkClient

ClientT = TypeVar("ClientT")
_Opened: TypeAlias = tuple[Endpoint, SdkClient[ClientT]]


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
                raise gateway_error("auth", "no key is at hand", provider=provider.id)
            return key

        if not self._of_this_loop().tasks:
            self._start(None, find_key_at_hand)

    def _start(
        self, api_key: str | None, find_key: Callable[[], Key | None]
    ) -> asyncio.Task[_Opened[ClientT]]:
        """Begin to make the client for *api_key* in a thread."""
        provider = self.provider
        extra, _ = extra_of(provider)

        def connect() -> _Opened[ClientT]:
            if not is_installed(provider):
                message = f"{provider.id} needs the extra [{extra}]; run: {install_command(extra)}"
                raise gateway_error("unsupported", message, provider=provider.id)
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
    top, _, rest = extra_of(provider)[1].partition(".")
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
    return gateway_error("unsupported", f"{provider} cannot be called: {found}", provider=provider)


def _has_failed(task: asyncio.Task[_Opened[ClientT]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

"""The SDK clients of one provider: made in a thread when first needed, one for each event loop and key.

Importing an SDK takes a second, which the event loop must not spend. Nor may it wait for a garbage collection
among everything that was imported, which takes tenths of a second in every thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from sidecar._internal.loading import fast_imports, install_command
from sidecar.llmgateway.contract import gateway_error
from sidecar.llmgateway.credentials import Credentials, Key
from sidecar.llmgateway.names import Provider, sdk_of
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
            GatewayError: ``unsupported`` when the SDK is not installed, ``auth`` when there is no key.
        """
        provider = self.provider
        extra, module = sdk_of(provider)

        def connect() -> _Opened[ClientT]:
            if not is_installed(provider):
                message = f"{provider.id} needs the extra [{extra}]; run: {install_command(extra)}"
                raise gateway_error("unsupported", message, provider=provider.id)
            key = Key(api_key, "the call") if api_key else self._credentials.find(provider)
            endpoint = Endpoint(provider, self.base_url, key, self.idle_timeout_s)
            with nullcontext() if module in sys.modules else fast_imports():
                return endpoint, self._connect(endpoint)

        tasks = self._of_this_loop().tasks
        task = tasks.get(api_key)
        if task is None or _has_failed(task):
            task = tasks[api_key] = asyncio.create_task(asyncio.to_thread(connect))
            # The caller may be gone before it fails; its failure is looked at in any case.
            task.add_done_callback(_has_failed)
        return await asyncio.shield(task)

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
    """Whether the SDK of *provider* can be imported."""
    top, _, rest = sdk_of(provider)[1].partition(".")
    if find_spec(top) is None:
        return False
    return not rest or find_spec(f"{top}.{rest}") is not None


def _has_failed(task: asyncio.Task[_Opened[ClientT]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

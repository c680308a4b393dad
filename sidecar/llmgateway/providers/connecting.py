"""The clients of one provider: made in a thread when first needed, one for each event loop and key.

An SDK takes a second to import; that second is never the event loop's. Nor are the tenths of a second that a
look for garbage takes among all that was imported: that would hold up every thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from sidecar._internal.loading import install_command, loading
from sidecar.llmgateway.contract import gateway_error
from sidecar.llmgateway.credentials import Credentials, Key
from sidecar.llmgateway.names import Provider, sdk_of
from sidecar.llmgateway.providers.adapter import Connected, Place

__all__ = ["Clients", "is_installed"]

ClientT = TypeVar("ClientT")
_Connection: TypeAlias = tuple[Place, Connected[ClientT]]


class Clients(Generic[ClientT]):
    """Connections to one address. *connect* makes a client, and blocks."""

    def __init__(
        self,
        provider: Provider,
        base_url: str | None,
        credentials: Credentials,
        connect: Callable[[Place], Connected[ClientT]],
    ) -> None:
        self.provider = provider
        self.base_url = base_url
        self._credentials = credentials
        self._connect = connect
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool[ClientT]] = WeakKeyDictionary()

    async def get(self, api_key: str | None = None) -> _Connection[ClientT]:
        """Return the place talked to and a client for it, with *api_key* or, when None, the user's own key.

        Raises:
            GatewayError: ``unsupported`` when the SDK is not installed, ``auth`` when there is no key.
        """
        return await self._pool().get(api_key)

    def forget(self, api_key: str | None) -> None:
        """Look the key up again for the next call: the provider refused this one."""
        self._pool().retire(api_key)

    async def aclose(self) -> None:
        """Close the clients of this event loop."""
        pool = self._by_loop.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    def _pool(self) -> _Pool[ClientT]:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = _Pool(self._make)
        return self._by_loop[loop]

    def _make(self, api_key: str | None) -> _Connection[ClientT]:
        provider = self.provider
        extra, _ = sdk_of(provider)
        if not is_installed(provider):
            message = f"{provider.id} needs the extra [{extra}]; run: {install_command(extra)}"
            raise gateway_error("unsupported", message, provider=provider.id)
        key = Key(api_key, "the call") if api_key else self._credentials.find(provider)
        place = Place(provider, self.base_url, key)
        with nullcontext() if sdk_of(provider)[1] in sys.modules else loading():
            return place, self._connect(place)


class _Pool(Generic[ClientT]):
    """The clients of one event loop."""

    def __init__(self, make: Callable[[str | None], _Connection[ClientT]]) -> None:
        self._make = make
        self._tasks: dict[str | None, asyncio.Task[_Connection[ClientT]]] = {}
        self._retired: list[asyncio.Task[_Connection[ClientT]]] = []

    async def get(self, api_key: str | None) -> _Connection[ClientT]:
        task = self._tasks.get(api_key)
        if task is None or _has_failed(task):
            making = asyncio.to_thread(self._make, api_key)
            task = self._tasks[api_key] = asyncio.create_task(making)
            # Whoever asked may have left before it failed; then nobody else looks at the failure.
            task.add_done_callback(_has_failed)
        return await asyncio.shield(task)

    def retire(self, api_key: str | None) -> None:
        """Give the client to no further call; those under way keep it until the pool is closed."""
        if api_key in self._tasks:
            self._retired.append(self._tasks.pop(api_key))

    async def aclose(self) -> None:
        tasks = (*self._tasks.values(), *self._retired)
        self._tasks.clear()
        self._retired.clear()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        for made in done:
            if not isinstance(made, BaseException):
                await made[1].close()


def is_installed(provider: Provider) -> bool:
    """Whether the SDK that *provider* needs can be imported."""
    top, _, rest = sdk_of(provider)[1].partition(".")
    if find_spec(top) is None:
        return False
    return not rest or find_spec(f"{top}.{rest}") is not None


def _has_failed(task: asyncio.Task[_Connection[ClientT]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

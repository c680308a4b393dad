"""One server of a session: connected in the background, listed, called, missed when it ends.

Nothing here knows how a server is spoken to; that is a link's. A server never costs more than its own tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar._internal.loading import install_command
from sidecar._internal.secrets import mask_secrets
from sidecar.capabilities.mcp.contract import (
    CallResult,
    Link,
    ListedTool,
    McpServer,
    OnProgress,
    OpenLink,
    ServerFailed,
    ServerHost,
)

__all__ = ["Connection", "Patience"]

_log = logging.getLogger(__name__)
_REASON_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds.

    *connect_s* until a server is ready, *prompt_s* by a prompt that comes meanwhile, *silent_s* for a word of
    a call, *close_s* until a server has let go in order.
    """

    connect_s: float = 60.0
    prompt_s: float = 10.0
    silent_s: float = 600.0
    close_s: float = 1.2


class Connection:
    """The life of one server, which begins at once; :meth:`aclose` last.

    *changed* is called when the tools are others than before. *settled* is set once the server is ready, or
    lost for good.
    """

    def __init__(
        self,
        server: McpServer,
        host: ServerHost,
        open_link: OpenLink,
        patience: Patience,
        changed: Callable[[], None],
    ) -> None:
        self.server = server
        self.tools: tuple[ListedTool, ...] = ()
        self.settled = asyncio.Event()
        self.is_lost = False
        self._host = host
        self._open_link = open_link
        self._patience = patience
        self._changed = changed
        self._link: Link | None = None
        self._is_leaving = False
        self._calls: set[asyncio.Task[CallResult]] = set()
        self._life = asyncio.ensure_future(self._live_and_tell())

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress, cancel: CancelToken
    ) -> CallResult:
        """Call a tool. Raises ServerFailed, also once *cancel* fires or the server says nothing any more."""
        if self._link is None:
            raise ServerFailed(f"the server {self.server.name!r} has ended")
        loop = asyncio.get_running_loop()
        silent_s, heard_at = self._patience.silent_s, loop.time()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            nonlocal heard_at
            heard_at = loop.time()
            await on_progress(progress, total, message)

        work = self._own(self._link.call(name, arguments, hear))
        try:
            with cancel_future(cancel) as cancelled:
                while not work.done() and not cancelled.done():
                    left_s = heard_at + silent_s - loop.time()
                    if left_s <= 0:
                        raise ServerFailed(f"the server {self.server.name!r} said nothing for {silent_s:g} s")
                    await asyncio.wait((work, cancelled), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ServerFailed("cancelled")
            return work.result()
        finally:
            # The server is told, however long it takes to listen: nobody waits for that.
            work.cancel()

    async def aclose(self) -> None:
        """End the server and what it started. Bounded: whoever has not let go by then is let go of."""
        self._is_leaving = True
        for task in (self._life, *self._calls):
            task.cancel()
        for _ in range(2):
            _, stuck = await asyncio.wait((self._life, *self._calls), timeout=self._patience.close_s)
            for task in stuck:
                task.cancel()

    async def _live_and_tell(self) -> None:
        try:
            why = await self._live()
        except Exception as error:
            _log.debug("the tool server %s is lost", self.server.name, exc_info=error)
            why = self._reason(error)
        finally:
            was_ready, self._link = self._link is not None, None
            self.settled.set()
        self.is_lost, self.tools = True, ()
        if not self._is_leaving:
            self._changed()
            self._tell(why, was_ready=was_ready)

    def _tell(self, why: str, *, was_ready: bool) -> None:
        what = "has ended: its tools are gone" if was_ready else "did not start: it adds no tools"
        text = mask_secrets(" ".join(why.split()))[:_REASON_CHARS]
        self._host.tell(f"The tool server {self.server.name!r} {what}", text)

    async def _live(self) -> str:
        """Live from the start to the end, and return why it ended."""
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._patience.connect_s):
                link = await stack.enter_async_context(self._open_link(self.server, self._host))
                self._show(await link.tools())
            self._link = link
            self.settled.set()
            while await link.changed():
                with suppress(ServerFailed):  # who cannot say what is new keeps what it had
                    self._show(await link.tools())
            return await link.why_ended()

    def _show(self, tools: tuple[ListedTool, ...]) -> None:
        if tools != self.tools:
            self.tools = tools
            self._changed()

    def _own(self, work: Coroutine[Any, Any, CallResult]) -> asyncio.Task[CallResult]:
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        task.add_done_callback(self._disown)
        return task

    def _disown(self, task: asyncio.Task[CallResult]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # of a call that was given up nobody else will ask

    def _reason(self, error: Exception) -> str:
        """Return what *error* says, in words."""
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        match cause:
            case TimeoutError():
                return f"it did not answer in {self._patience.connect_s:g} s"
            case ModuleNotFoundError():
                return f"the package {cause.name!r} is not installed; run: {install_command('mcp')}"
            case SidecarError():
                return cause.message
            case OSError(strerror=str(words)):
                return words
            case _:
                return f"{type(cause).__name__}: {cause}"

"""The tool servers of one session: connected in the background, listed, called, reported when they end.

A session is there at once, its servers follow; a prompt waits for them for a bounded time. A server that
fails costs its own tools and nothing else. They stay declared until the next prompt, so that the requests of
a prompt begin alike: a server that is started again mostly has the same ones, and until then a call of them
says why it fails. How to speak to a server is not known here: that is a :class:`ServerLink`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from typing import Any, Final, Literal

from sidecar._internal.async_cancel import cancel_future, comes_from_within, keep_until_done, unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar._internal.loading import install_command
from sidecar._internal.secrets import mask_secrets
from sidecar._internal.values import Value, replace
from sidecar.capabilities.contract import Form, FormAnswer, Tool
from sidecar.capabilities.mcp.contract import (
    CallResult,
    ListedTool,
    McpServer,
    OnProgress,
    OpenLink,
    ServerFailed,
    ServerHost,
    ServerLink,
    ServerState,
)
from sidecar.capabilities.mcp.tool import McpTool, server_slugs, tool_names

_log = logging.getLogger(__name__)
_REASON_CHARS: Final = 300


class ServerTimeouts(Value):
    """Bounds in seconds.

    Attributes:
        connect_s: from the start of a server until its tools are listed.
        prompt_s: for a prompt that waits for servers to be ready.
        idle_s: for a call without progress or an answer.
        close_s: for a server to end in order.
        restart_s: the pauses before each new start of a server that has ended; after the last one it is lost.
        healthy_s: a server that ran for so long has all its restarts again.
    """

    connect_s: float = 60.0
    prompt_s: float = 10.0
    idle_s: float = 600.0
    close_s: float = 1.2
    restart_s: tuple[float, ...] = (1.0, 4.0, 16.0, 60.0, 60.0)
    healthy_s: float = 300.0


@asynccontextmanager
async def open_with_package(server: McpServer, host: ServerHost) -> AsyncIterator[ServerLink]:
    """Open a link with the ``mcp`` package. Loading that takes about a second, once, in a thread."""
    module = await asyncio.to_thread(import_module, "sidecar.capabilities.mcp.link")
    async with module.open_link(server, host) as link:
        yield link


class SessionToolServers:
    """The tool servers of one session."""

    def __init__(
        self,
        host: ServerHost,
        *,
        open_link: OpenLink = open_with_package,
        timeouts: ServerTimeouts | None = None,
    ) -> None:
        self._host = host
        self._open_link = open_link
        self._timeouts = timeouts or ServerTimeouts()
        self._connections: tuple[ServerConnection, ...] = ()
        self._leaving: set[asyncio.Task[None]] = set()
        self._wait_until_s = 0.0

    def use(self, servers: Sequence[McpServer]) -> None:
        """Replace the servers by *servers*; a running one that is named again stays. Returns at once."""
        running = {each.server: each for each in self._connections if not each.is_lost}
        leaving = {each for each in self._connections if each.is_lost}
        wanted = dict.fromkeys(servers)
        self._connections = tuple(
            running.pop(server)
            if server in running
            else ServerConnection(server, self._host, self._open_link, self._timeouts, self._publish_tools)
            for server in wanted
        )
        for left in leaving.union(running.values()):
            keep_until_done(asyncio.ensure_future(left.aclose()), self._leaving)
        self._wait_until_s = asyncio.get_running_loop().time() + self._timeouts.prompt_s
        self._publish_tools()

    async def ready(self, cancel: CancelToken) -> None:
        """Wait until every server is ready or has failed, but no longer than ``prompt_s``.

        A prompt that goes on without some of them warns the user; later prompts wait for none. The tools of
        servers that are not started again are gone from here on.

        Contract: ends at once when *cancel* fires; does not suspend when there is no server to wait for.
        """
        if any(each.drop_tools_if_failed() for each in self._connections):
            self._publish_tools()
        starting = self._servers_starting()
        left_s = self._wait_until_s - asyncio.get_running_loop().time()
        if not starting or left_s <= 0:
            return
        waits = asyncio.gather(*(each.settled.wait() for each in starting))
        try:
            await unless_cancelled(asyncio.wait_for(waits, left_s), cancel)
        except TimeoutError:
            names = ", ".join(repr(each.server.name) for each in self._servers_starting())
            self._host.warn(
                f"Still starting: {names}", "The prompt goes on without the tools of these servers."
            )

    def states(self) -> Sequence[ServerState]:
        """Return the state of every server."""
        return [each.state() for each in self._connections]

    async def aclose(self) -> None:
        """End every server and its processes; bounded in time."""
        connections, self._connections = self._connections, ()
        await asyncio.gather(*(each.aclose() for each in connections), *self._leaving)

    def _servers_starting(self) -> list[ServerConnection]:
        return [each for each in self._connections if not each.settled.is_set()]

    def _publish_tools(self) -> None:
        tools: list[Tool] = []
        slugs = server_slugs(each.server.name for each in self._connections)
        for slug, connection in zip(slugs, self._connections, strict=True):
            names = tool_names(slug, (tool.name for tool in connection.tools))
            server, call = connection.server.name, connection.call
            tools += [
                McpTool(name=name, slug=slug, server=server, listed=tool, call=call)
                for name, tool in zip(names, connection.tools, strict=True)
            ]
        self._host.offer(tuple(tools))


class ServerConnection:
    """The life of one server, which begins at once; :meth:`aclose` last.

    *on_change* is called when the tools have changed.

    Attributes:
        settled: set once the server was ready for the first time, or could not be started.
        is_lost: whether it is not running now; it may be started again.
    """

    def __init__(
        self,
        server: McpServer,
        host: ServerHost,
        open_link: OpenLink,
        timeouts: ServerTimeouts,
        on_change: Callable[[], None],
    ) -> None:
        self.server = server
        self.tools: tuple[ListedTool, ...] = ()
        self.settled = asyncio.Event()
        self.is_lost = False
        self._host = host if host.ask_form is None else replace(host, ask_form=self.ask_form)
        self._ask_user = host.ask_form
        self._asking: set[asyncio.Task[FormAnswer]] = set()
        self._open_link = open_link
        self._timeouts = timeouts
        self._on_change = on_change
        self._link: ServerLink | None = None
        self._is_leaving = False
        self._problem: str | None = None
        self._calls: set[asyncio.Task[CallResult]] = set()
        self._life = asyncio.ensure_future(self._run())

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress, cancel: CancelToken
    ) -> CallResult:
        """Call a tool.

        Args:
            name: the server's own name of the tool.
            arguments: JSON values.
            on_progress: receives the progress of the call; each report restarts the idle timeout.
            cancel: ends the call, and tells the server so.

        Raises:
            ServerFailed: the server refused, ended or sent nothing for ``idle_s``, or *cancel* fired.
        """
        if self._link is None:
            again = "it is not started again" if self._life.done() else "it is being started again"
            raise ServerFailed(f"the server {self.server.name!r} has ended; {again}")
        loop = asyncio.get_running_loop()
        idle_s, active_at = self._timeouts.idle_s, loop.time()

        async def on_activity(progress: float, total: float | None, message: str | None) -> None:
            nonlocal active_at
            active_at = loop.time()
            await on_progress(progress, total, message)

        def forget(task: asyncio.Task[CallResult]) -> None:
            self._calls.discard(task)
            if not task.cancelled():
                task.exception()  # retrieved here, as a call that was given up has no other reader

        work = asyncio.ensure_future(self._link.call(name, arguments, on_activity))
        self._calls.add(work)
        work.add_done_callback(forget)
        try:
            with cancel_future(cancel) as cancelled:
                while not work.done() and not cancelled.done():
                    if self._asking:  # the server waits for the user
                        active_at = loop.time()
                    left_s = active_at + idle_s - loop.time()
                    if left_s <= 0:
                        raise ServerFailed(f"the server {self.server.name!r} sent nothing for {idle_s:g} s")
                    await asyncio.wait((work, cancelled), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ServerFailed("cancelled")
            return work.result()
        finally:
            # The server is notified, however long it takes to react: that is not waited for.
            work.cancel()
            if not self._calls - {work}:  # whatever it still asks, nothing waits for
                for asking in self._asking:
                    asking.cancel()

    async def ask_form(self, form: Form) -> FormAnswer:
        """Put a form of the server to the user; it is taken back when no call waits for it any more."""
        assert self._ask_user is not None
        asking = asyncio.ensure_future(self._ask_user(form))
        self._asking.add(asking)
        try:
            return await asking
        except asyncio.CancelledError as error:
            if comes_from_within(error):
                return FormAnswer("cancel")
            raise
        finally:
            asking.cancel()
            self._asking.discard(asking)

    async def aclose(self) -> None:
        """End the server and its processes. Bounded: a task that has not ended by then is left behind."""
        self._is_leaving = True
        for task in (self._life, *self._calls):
            task.cancel()
        for _ in range(2):
            _, stuck = await asyncio.wait((self._life, *self._calls), timeout=self._timeouts.close_s)
            for task in stuck:
                task.cancel()

    def state(self) -> ServerState:
        """Return whether it runs now, and why not."""
        if self._link is not None:
            return ServerState(self.server.name, "running", len(self.tools))
        if self._life.done():
            return ServerState(self.server.name, "failed", 0, self._problem)
        state: Literal["restarting", "starting"] = "restarting" if self.is_lost else "starting"
        return ServerState(self.server.name, state, 0, self._problem)

    async def _run(self) -> None:
        """Serve the tools until the end that was wanted; start a server again that has ended by itself.

        One that never started is not tried again: its settings are wrong.
        """
        clock, pauses = asyncio.get_running_loop().time, list(self._timeouts.restart_s)
        was_ready = False
        while True:
            began_s = clock()
            ran, reason = await self.serve()
            was_ready = was_ready or ran
            if self._is_leaving:
                return
            if clock() - began_s > self._timeouts.healthy_s:
                pauses = list(self._timeouts.restart_s)
            pause_s = pauses.pop(0) if was_ready and pauses else None
            text = self._problem = mask_secrets(" ".join(reason.split()))[:_REASON_CHARS]
            if ran or pause_s is None:
                what = "has ended" if was_ready else "did not start: it adds no tools"
                if was_ready:
                    again = "not started again" if pause_s is None else f"started again in {pause_s:g} s"
                    text = f"{text}; it is {again}"
                self._host.warn(f"The tool server {self.server.name!r} {what}", text)
            if pause_s is None:
                return
            await asyncio.sleep(pause_s)

    async def serve(self) -> tuple[bool, str]:
        """Connect, and list the tools whenever they change, until the end.

        Returns:
            Whether the server was ready, and why it has ended.
        """
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._timeouts.connect_s):
                    link = await stack.enter_async_context(self._open_link(self.server, self._host))
                    self._set_tools(await link.tools())
                self._link, self.is_lost = link, False
                self.settled.set()
                while await link.wait_for_change():
                    with suppress(ServerFailed):  # a server that cannot list its new tools keeps the old ones
                        self._set_tools(await link.tools())
                reason = await link.why_ended()
        except Exception as error:
            _log.debug("the tool server %s is lost", self.server.name, exc_info=error)
            reason = explain_failure(error, self._timeouts.connect_s)
        finally:
            was_ready, self._link = self._link is not None, None
            self.settled.set()
        self.is_lost = True
        return was_ready, reason

    def drop_tools_if_failed(self) -> bool:
        """Let go of the tools of a server that is not started again; return whether it had any."""
        had_tools = self._life.done() and bool(self.tools)
        self.tools = () if had_tools else self.tools
        return had_tools

    def _set_tools(self, tools: tuple[ListedTool, ...]) -> None:
        if tools != self.tools:
            self.tools = tools
            self._on_change()


def explain_failure(error: Exception, connect_s: float) -> str:
    """Return the cause of *error* in words."""
    cause: BaseException = error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    match cause:
        case TimeoutError():
            return f"it did not answer in {connect_s:g} s"
        case ModuleNotFoundError():
            return f"the package {cause.name!r} is not installed; run: {install_command('mcp')}"
        case SidecarError():
            return cause.message
        case OSError(strerror=str(words)):
            return words
        case _:
            return f"{type(cause).__name__}: {cause}"

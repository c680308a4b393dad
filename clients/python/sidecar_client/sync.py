"""The client for scripts without asyncio: every method blocks until it is done.

A thread runs the asynchronous client; nothing here knows the protocol. Iterators block too, so leave them at
the awaited event.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from sidecar_client import client as aio
from sidecar_client import session as aio_session
from sidecar_client.calls import BlockingCalls
from sidecar_client.errors import ConnectionLost

P = ParamSpec("P")
R = TypeVar("R")
Q = TypeVar("Q")
W_co = TypeVar("W_co", covariant=True)


class _LoopThread:
    """An event loop in a thread, between :meth:`start` and :meth:`stop`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()

    @property
    def is_running(self) -> bool:
        """Whether the thread is running."""
        return self._loop is not None

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sidecar_client", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run *work* in the thread and return its result; an interrupt here cancels it."""
        if self._loop is None:
            work.close()
            raise ConnectionLost("this client is not open; use it inside its with block")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def walk(self, items: AsyncIterator[R]) -> Iterator[R]:
        """Yield the items of an asynchronous iterator."""

        async def step() -> tuple[R] | None:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return None

        while (item := self.wait(step())) is not None:
            yield item[0]

    def stop(self) -> None:
        """Cancel all tasks and end the thread; a second call does nothing."""
        if self._loop is not None:

            async def finish() -> None:
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.get_running_loop().shutdown_asyncgens()

            self.wait(finish())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None


class _Blocking(Generic[W_co]):
    """A wrapper around an asynchronous object that lives in *loop*."""

    def __init__(self, wrapped: W_co, loop: _LoopThread) -> None:
        self._wrapped = wrapped
        self._loop = loop


def _block_on(
    method: Callable[Concatenate[W_co, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Blocking[W_co], P], R]:
    """Return *method* as a method that blocks."""

    @wraps(method)
    def block(wrapper: _Blocking[W_co], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return wrapper._loop.wait(method(wrapper._wrapped, *args, **kwargs))

    return block


def _walk_on(
    method: Callable[Concatenate[W_co, P], AsyncIterator[R]],
) -> Callable[Concatenate[_Blocking[W_co], P], Iterator[R]]:
    """Return *method* as a method with an iterator that blocks."""

    @wraps(method)
    def walk(wrapper: _Blocking[W_co], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return wrapper._loop.walk(method(wrapper._wrapped, *args, **kwargs))

    return walk


class Session(_Blocking[aio_session.Session]):
    """A handle on one session; see :class:`sidecar_client.Session`."""

    prompt = _block_on(aio_session.Session.prompt)
    run = _block_on(aio_session.Session.run)
    interrupt = _block_on(aio_session.Session.interrupt)
    preview = _block_on(aio_session.Session.preview)
    compact = _block_on(aio_session.Session.compact)
    undo = _block_on(aio_session.Session.undo)
    usage = _block_on(aio_session.Session.usage)
    files = _block_on(aio_session.Session.files)
    close = _block_on(aio_session.Session.close)
    wait_for = _block_on(aio_session.Session.wait_for)
    stream = _walk_on(aio_session.Session.stream)
    events = _walk_on(aio_session.Session.events)

    @property
    def sid(self) -> str:
        """The session's id."""
        return self._wrapped.sid


def _open_with(
    method: Callable[Concatenate[aio.SidecarClient, P], Coroutine[Any, Any, aio_session.Session]],
) -> Callable[Concatenate[_Blocking[aio.SidecarClient], P], Session]:
    """Return *method* as a method that blocks, and returns a session that blocks, too."""

    @wraps(method)
    def open_session(wrapper: _Blocking[aio.SidecarClient], /, *args: P.args, **kwargs: P.kwargs) -> Session:
        loop = wrapper._loop
        return Session(loop.wait(method(wrapper._wrapped, *args, **kwargs)), loop)

    return open_session


class SidecarClient(_Blocking[aio.SidecarClient], BlockingCalls):
    """One client of one daemon, in ``with``; see :class:`sidecar_client.SidecarClient`."""

    did_open = _block_on(aio.SidecarClient.did_open)
    did_change = _block_on(aio.SidecarClient.did_change)
    did_save = _block_on(aio.SidecarClient.did_save)
    did_close = _block_on(aio.SidecarClient.did_close)
    did_change_watched_files = _block_on(aio.SidecarClient.did_change_watched_files)
    report_editor = _block_on(aio.SidecarClient.report_editor)
    request = _block_on(aio.SidecarClient.request)
    notify = _block_on(aio.SidecarClient.notify)
    shutdown = _block_on(aio.SidecarClient.shutdown)
    start_session = _open_with(aio.SidecarClient.start_session)
    load_session = _open_with(aio.SidecarClient.load_session)
    events = _walk_on(aio.SidecarClient.events)
    notifications = _walk_on(aio.SidecarClient.notifications)
    progress = _walk_on(aio.SidecarClient.progress)

    def __init__(self, client: aio.SidecarClient) -> None:
        super().__init__(client, _LoopThread())

    def call(self, method: str, params: object, result: type[R]) -> R:
        return self._loop.wait(self._wrapped.call(method, params, result))

    @classmethod
    def spawn(
        cls,
        command: Sequence[str] = aio.DAEMON,
        *,
        cwd: str | Path = ".",
        env: Mapping[str, str] | None = None,
        **setup: Unpack[aio.Setup],
    ) -> Self:
        """Return a client that starts a daemon in *cwd*; handlers are plain functions, run in threads."""
        return cls(aio.SidecarClient.spawn(command, cwd=cwd, env=env, **with_handlers_in_threads(setup)))

    @classmethod
    def connect(cls, path: str | Path, **setup: Unpack[aio.Setup]) -> Self:
        """Return a client that attaches to the daemon at the unix socket *path*; handlers run in threads."""
        return cls(aio.SidecarClient.connect(path, **with_handlers_in_threads(setup)))

    def __enter__(self) -> Self:
        """Start."""
        self._loop.start()
        try:
            self._loop.wait(self._wrapped.start())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Leave, and end a daemon that this client started; see the asynchronous client."""
        if not self._loop.is_running:
            return
        try:
            self._loop.wait(self._wrapped.close())
        finally:
            self._loop.stop()

    @property
    def server(self) -> Mapping[str, Any]:
        """The daemon's description of itself."""
        return self._wrapped.server

    @property
    def exit_code(self) -> int | None:
        """The daemon's exit code; None while it runs, and for a daemon that this client did not start."""
        return self._wrapped.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of the daemon's standard error."""
        return self._wrapped.stderr_tail


def with_handlers_in_threads(setup: aio.Setup) -> aio.Setup:
    """Return *setup* with its handlers in threads, so that one that waits for a user blocks nothing else."""
    off: aio.Setup = {**setup}
    if "permission" in setup:
        off["permission"] = _in_thread(setup["permission"])
    if "elicit" in setup:
        off["elicit"] = _in_thread(setup["elicit"])
    if "handlers" in setup:
        off["handlers"] = {method: _in_thread(handler) for method, handler in setup["handlers"].items()}
    return off


def _in_thread(handler: Callable[[Q], Any]) -> Callable[[Q], Coroutine[Any, Any, Any]]:
    """Return *handler* run in a thread that does not keep the program from ending."""

    async def answer(question: Q) -> Any:
        future = concurrent.futures.Future[Any]()
        future.set_running_or_notify_cancel()  # a cancelled wait does not disturb the handler

        def decide() -> None:
            try:
                future.set_result(handler(question))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=decide, name="sidecar_client handler", daemon=True).start()
        return await asyncio.wrap_future(future)

    return answer

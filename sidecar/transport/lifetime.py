"""The end of the process: its reasons (signals, the parent, the client's process) and its grace period.

:class:`Lifetime` takes the first reason and starts a clock. When the grace period is over the process is
gone, settled or not, even if its threads and its event loop hang. The caller of :func:`supervise`
decides how to settle.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NoReturn, Protocol

from sidecar._internal.errors import log_fault
from sidecar._internal.values import Value
from sidecar.transport.processes import STARTED_BY, is_process_id, wait_for_parent, wait_for_process
from sidecar.transport.stdio import LossyStderr

GRACE_S: Final = 2.0
_SETTLE_SHARE: Final = 0.7
"""The part of the grace period for settling and storing; the rest is for the last answers to the client."""
_log = logging.getLogger("sidecar.transport")


class ExitReason(Value):
    """The reason why the process ends, and the exit code that it ends with."""

    reason: str
    code: int


class Lifetime:
    """The one decision to end the process. Any thread may call :meth:`stop`.

    Args:
        grace_s: time from the decision to the hard end, in seconds.
        leave: makes the hard end; None for no hard end, as in tests that share their process with others.
    """

    def __init__(self, grace_s: float = GRACE_S, leave: Callable[[int], None] | None = None) -> None:
        self.grace_s = grace_s
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._decided = asyncio.Event()
        self.decision: ExitReason | None = None

    def stop(self, reason: str, code: int) -> None:
        """End the process. The first reason counts; a later call does nothing."""
        with self._lock:
            if self.decision is not None:
                return
            self.decision = ExitReason(reason, code)
        if (leave := self._leave) is not None:

            def end_hard() -> None:
                time.sleep(self.grace_s)
                leave(code)

            threading.Thread(target=end_hard, name="sidecar-grace", daemon=True).start()
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for the decision
            self._loop.call_soon_threadsafe(self._decided.set)

    async def wait(self) -> ExitReason:
        """Return the decision once there is one."""
        await self._decided.wait()
        assert self.decision is not None
        return self.decision

    def watch_process(self, pid: int | None) -> None:
        """End when process *pid* ends, or at once if it is gone; None, 0 and our own id are ignored."""
        if is_process_id(pid) and pid != os.getpid():
            self._stop_after(lambda: wait_for_process(pid), f"process {pid} is gone")

    def watch_parent(self) -> None:
        """End when the process that started this one ends; the first process of a container has none."""
        if STARTED_BY != 0:
            self._stop_after(wait_for_parent, "the parent process is gone")

    def handle_signals(self) -> None:
        """End in order at SIGTERM, SIGINT and SIGHUP, except for signals that were inherited as ignored."""

        def on_signal(number: int, _frame: object) -> None:
            # Not in the handler itself: it may have interrupted the very code that holds the lock.
            name = signal.Signals(number).name
            threading.Thread(target=self.stop, args=(name, 0), daemon=True).start()

        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, on_signal)

    def _stop_after(self, wait: Callable[[], None], reason: str) -> None:
        """Run *wait* in a thread, then end the process for *reason*."""

        def watch() -> None:
            wait()
            self.stop(reason, 1)

        threading.Thread(target=watch, name="sidecar-watch", daemon=True).start()


class SupervisedConnection(Protocol):
    """A connection, or a set of them, that :func:`supervise` serves to its end."""

    async def wait_ended(self) -> ExitReason:
        """Return once the client has ended the connection, with the exit code for that kind of end."""
        ...

    def announce_end(self, reason: str, in_s: float) -> None:
        """Notify the client that the process will end in *in_s* seconds, and accept nothing more from it."""
        ...

    async def aclose(self, seconds: float) -> None:
        """Send the last answers, flush and close, in about *seconds*."""
        ...


async def supervise(
    lifetime: Lifetime, connection: SupervisedConnection, settle: Callable[[], Awaitable[None]]
) -> int:
    """Wait until *connection* or the process ends, settle while the client still listens, then close.

    Args:
        lifetime: decides when the process ends; a connection that ends decides it too.
        connection: the client or clients to serve.
        settle: stops the work in progress and stores it.

    Returns:
        The exit code, at the latest one grace period after the decision.
    """
    ended = asyncio.ensure_future(connection.wait_ended())
    decided = asyncio.ensure_future(lifetime.wait())
    await asyncio.wait((ended, decided), return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        lifetime.stop(ended.result().reason, ended.result().code)
    ended.cancel()
    stop, grace_s = await decided, lifetime.grace_s
    _log.info("ending: %s", stop.reason)
    connection.announce_end(stop.reason, grace_s)
    await _run_at_most(grace_s * _SETTLE_SHARE, settle(), "settling")
    rest_s = grace_s * (1 - _SETTLE_SHARE) / 3
    await _run_at_most(2 * rest_s, connection.aclose(rest_s), "closing the connection")
    return stop.code


async def _run_at_most(seconds: float, work: Awaitable[None], action: str) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        _log.warning("%s took longer than %.1f s and was abandoned", action, seconds)
    except Exception as error:
        log_fault(action, error)


def run(main: Callable[[Lifetime], Coroutine[Any, Any, int]], *, grace_s: float = GRACE_S) -> NoReturn:
    """Run *main* in an event loop, then end the process with its exit code, without waiting for threads."""

    async def run_main() -> int:
        # The hard end flushes nothing: writing the log may be the very thing that hangs.
        lifetime = Lifetime(grace_s, os._exit)
        lifetime.handle_signals()
        if os.name == "nt":
            # Imported here: it loads ctypes, and an editor would wait for that.
            from sidecar.transport.jobs import hold_children

            hold_children()
        return await main(lifetime)

    def log_loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            _log.error("event loop: %s", context["message"])
        else:
            log_fault(f"event loop: {context['message']}", error)

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(log_loop_fault)
    code = 1
    try:
        code = loop.run_until_complete(run_main())
    except BaseException as error:
        log_fault("the daemon", error)
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process now: no exit handlers, no waiting for threads."""
    with contextlib.suppress(Exception):  # a log that cannot be written must not keep the process
        logging.shutdown()
        if isinstance(sys.stderr, LossyStderr):
            sys.stderr.drain()
    os._exit(code)

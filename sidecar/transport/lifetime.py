"""When the process has to end, and that it does: signals, the parent, the client's process, the grace period.

Whatever the reason, :class:`Lifetime` takes the first one and from that moment counts: after the grace period
the process is gone, settled or not, whatever its threads and its event loop are doing. Settles nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from sidecar._internal.errors import log_fault
from sidecar.transport.processes import is_process_id, wait_for_parent, wait_for_process

__all__ = ["GRACE_S", "Lifetime", "Served", "Stop", "leave", "run", "supervise"]

GRACE_S: Final = 2.0
_SETTLE_SHARE: Final = 0.7
"""The part of the grace that settling and storing may take; the rest is for telling the client."""
_log = logging.getLogger("sidecar.transport")


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the process ends, and with which exit code."""

    reason: str
    code: int


class Lifetime:
    """The one decision to end. Any thread may call :meth:`stop`.

    Args:
        grace_s: from the decision to the hard end, in seconds.
        leave: the hard end; None for none, as in tests that share their process with others.
    """

    def __init__(self, grace_s: float = GRACE_S, leave: Callable[[int], None] | None = None) -> None:
        self.grace_s = grace_s
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._decided = asyncio.Event()
        self.decision: Stop | None = None

    def stop(self, reason: str, code: int) -> None:
        """End the process; the first reason counts, later ones are nothing."""
        with self._lock:
            if self.decision is not None:
                return
            self.decision = Stop(reason, code)
        if self._leave is not None:
            threading.Thread(target=self._end_hard, name="sidecar-grace", daemon=True).start()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._decided.set)

    async def wait(self) -> Stop:
        """Return the decision once there is one."""
        await self._decided.wait()
        assert self.decision is not None
        return self.decision

    def watch_process(self, pid: int | None) -> None:
        """End when process *pid* does, at once when it is gone already; None and 0 are no process."""
        if is_process_id(pid) and pid != os.getpid():
            self._in_thread(lambda: wait_for_process(pid), f"process {pid} is gone")

    def watch_parent(self) -> None:
        """End when the process that started this one does."""
        parent = os.getppid()
        self._in_thread(lambda: wait_for_parent(parent), "the parent process is gone")

    def handle_signals(self) -> None:
        """End in order at SIGTERM, SIGINT and SIGHUP, unless the starter had them ignored."""
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        # Not inside the handler: it may have interrupted the very code that holds the lock.
        name = signal.Signals(number).name
        threading.Thread(target=self.stop, args=(name, 0), daemon=True).start()

    def _in_thread(self, wait: Callable[[], None], reason: str) -> None:
        def watch() -> None:
            wait()
            self.stop(reason, 1)

        threading.Thread(target=watch, name="sidecar-watch", daemon=True).start()

    def _end_hard(self) -> None:
        time.sleep(self.grace_s)
        assert self.decision is not None
        assert self._leave is not None
        self._leave(self.decision.code)


class Served(Protocol):
    """One connection, as the end of the process sees it."""

    async def wait_ended(self) -> Stop:
        """Return once the client has ended the connection, with the exit code that follows from how."""
        ...

    def announce_end(self, reason: str, in_s: float) -> None:
        """Tell the client that the process will end, and take nothing more from it."""
        ...

    async def aclose(self, seconds: float) -> None:
        """Answer, flush and let go, in about *seconds*."""
        ...


async def supervise(lifetime: Lifetime, served: Served, settle: Callable[[], Awaitable[None]]) -> int:
    """Wait for the end of *served* or of the process, settle while the client still listens, then close.

    Returns the exit code. Takes no longer than the grace period from the moment something ended.
    """
    await _first(served.wait_ended(), lifetime.wait(), lifetime)
    assert lifetime.decision is not None
    stop, grace_s = lifetime.decision, lifetime.grace_s
    _log.info("ending: %s", stop.reason)
    served.announce_end(stop.reason, grace_s)
    await _at_most(grace_s * _SETTLE_SHARE, settle(), "settling")
    rest_s = grace_s * (1 - _SETTLE_SHARE) / 3
    await _at_most(2 * rest_s, served.aclose(rest_s), "closing the connection")
    return stop.code


async def _first(
    ended: Coroutine[Any, Any, Stop], decided: Coroutine[Any, Any, Stop], life: Lifetime
) -> None:
    tasks = [asyncio.ensure_future(ended), asyncio.ensure_future(decided)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if not task.done():
            task.cancel()
        elif task is tasks[0]:
            stop = task.result()
            life.stop(stop.reason, stop.code)


async def _at_most(seconds: float, work: Awaitable[None], what: str) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        _log.warning("%s took longer than %.1f s and was left", what, seconds)
    except Exception as error:
        log_fault(what, error)


def run(main: Callable[[Lifetime], Coroutine[Any, Any, int]], *, grace_s: float = GRACE_S) -> NoReturn:
    """Run *main* in an event loop, then leave with its exit code. Threads that are stuck do not matter."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(_log_loop_fault)
    code = 1
    try:
        code = loop.run_until_complete(_run(main, grace_s))
    except BaseException as error:
        log_fault("the daemon", error)
    leave(code)


async def _run(main: Callable[[Lifetime], Coroutine[Any, Any, int]], grace_s: float) -> int:
    # The hard end flushes nothing: the log may be what hangs.
    lifetime = Lifetime(grace_s, os._exit)
    lifetime.handle_signals()
    if os.name == "nt":
        _end_children_with_us()
    return await main(lifetime)


def _end_children_with_us() -> None:
    # Only there: it loads ctypes, for which an editor would have to wait.
    from sidecar.transport.jobs import end_children_with_us, load_kernel32

    system = load_kernel32()
    if system is None or not end_children_with_us(system):
        _log.warning("Windows gave no job object: what tools start may outlive a daemon that is killed")


def _log_loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if error is None:
        _log.error("event loop: %s", context["message"])
    else:
        log_fault(f"event loop: {context['message']}", error)


def leave(code: int) -> NoReturn:
    """End the process now: no exit handlers, no waiting for threads."""
    with contextlib.suppress(Exception):  # a log that cannot be written must not keep us
        logging.shutdown()
    os._exit(code)

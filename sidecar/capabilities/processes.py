"""Child processes that end when they should: with their whole group, and with the daemon.

The problem: a command of a model may start anything, and nothing of it may outlive the call, the session or
the daemon, however these end. Three means work together:

- A child runs in a session of its own, so that one signal reaches the whole group.
- Its standard input is a pipe that only the daemon holds open. A watcher in the group reads that pipe and
  kills the group at its end, so that not even a killed daemon leaves anything running.
- Before a child is ended by force its descendants are listed, and killed one by one after the group, since
  some may have left it. A process that leaves the group and loses its parent too (a double fork) is not
  found.

Output is handed on as it comes, both streams in one. Nothing here waits for a pipe that a runaway grandchild
holds open. On Windows, where this has never run, psutil ends the tree of descendants instead of the group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken

if TYPE_CHECKING:
    import psutil

_GRACE_S = 0.04
_TIMEOUT_GRACE_S = 2.0
_DRAIN_S = 1.0

_LIFELINE = 'exec 3<&0 </dev/null; (read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec "$@" 3<&-'
# Shells need not know descriptors of two digits; a system without /dev/fd goes without the watcher.
_LIFELINE_AT = (
    'fd=$1; shift; (exec 3<"/dev/fd/$fd" || exit; read -r _ <&3; kill -KILL 0) '
    '</dev/null >/dev/null 2>&1 & exec "$@"'
)

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

InputWriter: TypeAlias = Callable[[Callable[[bytes], None]], Awaitable[None]]
"""Writes to a child's standard input with the function it is given. Contract: ends when it is cancelled."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A command to run.

    *write_input* is awaited once the child runs, with a function that writes to its standard input from any
    thread; then the input ends. Without it the input stays open, and silent, for as long as the child runs.
    """

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float
    write_input: InputWriter | None = None


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """The end of a child: its exit code (negative for a signal), and the reason."""

    exit_code: int | None
    reason: Literal["exited", "timeout", "cancelled"]


def with_lifeline(argv: Sequence[str]) -> list[str]:
    """Return a command that runs *argv* without input and dies when its own standard input is closed."""
    if os.name == "nt":
        return list(argv)
    return ["/bin/sh", "-c", _LIFELINE, "sh", *argv]


def with_lifeline_at(argv: Sequence[str], fd: int) -> list[str]:
    """Return a command that runs *argv*, its input untouched, and dies when the pipe behind *fd* is closed.

    The descriptor *fd* is the reading end of a pipe, passed on to the child; only the daemon may hold the
    writing end.
    """
    if os.name == "nt":
        return list(argv)
    return ["/bin/sh", "-c", _LIFELINE_AT, "sh", str(fd), *argv]


async def run_child(
    spec: ChildSpec,
    *,
    on_output: Callable[[bytes], None],
    on_start: Callable[[int], Callable[[], None]],
    cancel: CancelToken,
) -> ChildEnd:
    """Run a child to its end, and end everything it started.

    Args:
        spec: the command.
        on_output: receives the output as it comes.
        on_start: receives the process id and returns a function to call when the child is gone.
        cancel: ends the child within 100 ms.

    Raises:
        OSError: the child cannot be started.
    """
    transport, child = await asyncio.get_running_loop().subprocess_exec(
        lambda: _Child(on_output),
        *spec.argv,
        stdin=subprocess.PIPE if spec.write_input or os.name != "nt" else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=spec.cwd,
        env=dict(spec.environment),
        start_new_session=os.name != "nt",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    on_gone = on_start(transport.get_pid())
    drain_s = _GRACE_S
    try:
        reason = await child.wait_for_end(spec, transport, cancel)
        if reason == "exited":
            drain_s = _DRAIN_S
        else:
            started = await asyncio.to_thread(_descendants, transport.get_pid())
            signal_group(transport, signal.SIGTERM)
            grace_s = _GRACE_S if reason == "cancelled" else _TIMEOUT_GRACE_S
            await asyncio.wait((child.exited,), timeout=grace_s)
            signal_group(transport, KILL)
            _kill(started)
            await asyncio.wait((child.exited,), timeout=_DRAIN_S)
        # A process of the group that is about to end may do so by itself.
        await asyncio.wait((child.closed,), timeout=_GRACE_S)
        return ChildEnd(transport.get_returncode(), reason)
    finally:
        # Whatever happened, also to us: nothing of the group lives on. Only a process that has left it can
        # still hold the pipe open then, and is not waited for.
        signal_group(transport, KILL)
        try:
            await asyncio.wait((child.closed,), timeout=drain_s)
            transport.close()
            await asyncio.wait((child.closed,), timeout=_DRAIN_S)
        finally:
            transport.close()
            on_gone()


class _Child(asyncio.SubprocessProtocol):
    """One running child; *exited* is set when it is gone, *closed* when its output has ended as well."""

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self._on_output = on_output
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._on_output(data)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    async def wait_for_end(
        self, spec: ChildSpec, transport: asyncio.SubprocessTransport, cancel: CancelToken
    ) -> Literal["exited", "timeout", "cancelled"]:
        """Write the child's input while it runs; return the reason once it is over, or must be ended."""
        loop = asyncio.get_running_loop()

        async def write_input() -> None:
            if spec.write_input is None:
                return
            stdin = transport.get_pipe_transport(0)
            assert isinstance(stdin, asyncio.WriteTransport)

            def write(data: bytes) -> None:
                loop.call_soon_threadsafe(stdin.write, data)

            try:
                # The bytes that a thread has written reach the loop before the end of the thread does.
                await spec.write_input(write)
            finally:
                # Also when there is nothing to write: the child must not wait for it.
                stdin.close()

        writing = asyncio.ensure_future(write_input())
        try:
            with cancel_future(cancel) as cancelled:
                done, _ = await asyncio.wait(
                    (self.exited, cancelled), timeout=spec.timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            writing.cancel()
            await asyncio.wait((writing,))
        if not writing.cancelled():
            writing.result()
        if self.exited in done:
            return "exited"
        return "cancelled" if cancelled in done else "timeout"


def signal_group(transport: asyncio.SubprocessTransport, sent: signal.Signals) -> None:
    """Send a signal to a child and everything in its group; on Windows end all its descendants instead."""
    pid = transport.get_pid()
    if sys.platform != "win32":
        # The child leads its group, which bears its id. A group that is gone is as it should be.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, sent)
    elif transport.get_returncode() is None:  # else its id may be that of another process by now
        started = _descendants(pid)
        transport.kill()
        _kill(started)


def _descendants(pid: int) -> list[psutil.Process]:
    """Return the processes that *pid* and its children started, as far as their parents are alive."""
    import psutil  # not above: a daemon that ends no command by force starts faster without

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _kill(processes: Sequence[psutil.Process]) -> None:
    """Kill *processes*; one that is gone stays gone, also where its id was given to another."""
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()

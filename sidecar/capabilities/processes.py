"""Child processes that end when they should: with their whole group, and with the daemon.

A child runs in a session of its own. Its standard input is a pipe that only the daemon holds open; where a
command is run on behalf of a model, a watcher in its group reads that pipe and kills the group at its end, so
that not even a killed daemon leaves anything running. Output is handed on as it comes, both streams in one.

Never waits for a pipe that a runaway grandchild holds open; never leaves a child behind.
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
from typing import Literal, TypeAlias

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken

__all__ = [
    "KILL",
    "ChildEnd",
    "ChildSpec",
    "Feed",
    "run_child",
    "signal_group",
    "with_lifeline",
    "with_lifeline_at",
]

_GRACE_S = 0.04
_TIMEOUT_GRACE_S = 2.0
_DRAIN_S = 1.0

_LIFELINE = 'exec 3<&0 </dev/null; (read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec "$@" 3<&-'
# Shells need not know descriptors of two digits; a system without /dev/fd goes without the watcher.
_LIFELINE_AT = (
    'fd=$1; shift; (exec 3<"/dev/fd/$fd" || exit; read -r _ <&3; kill -KILL 0) '
    '</dev/null >/dev/null 2>&1 & exec "$@"'
)

Feed: TypeAlias = Callable[[Callable[[bytes], None]], Awaitable[None]]
"""Writes to a child's standard input with the function it is given. Contract: ends when it is cancelled."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run.

    *feed* is awaited once the child runs, with a function that writes to its standard input from any thread;
    then the input ends. Without *feed* it stays open, and silent, for as long as the child runs.
    """

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float
    feed: Feed | None = None


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended: its exit code (negative for a signal), and what ended it."""

    exit_code: int | None
    reason: Literal["exited", "timeout", "cancelled"]


def with_lifeline(argv: Sequence[str]) -> list[str]:
    """Return a command that runs *argv* without input and dies with whoever holds its own input open."""
    if os.name == "nt":
        return list(argv)
    return ["/bin/sh", "-c", _LIFELINE, "sh", *argv]


def with_lifeline_at(argv: Sequence[str], fd: int) -> list[str]:
    """Return a command that runs *argv*, with its input as it is, and dies with whoever writes to *fd*.

    The descriptor is the reading end of a pipe that nobody else may hold open, passed on to the child.
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

    *on_start* hears the process id and returns what to call when the child is gone. Raises OSError when the
    child cannot be started.
    """
    transport, child = await _start(spec, on_output)
    on_gone = on_start(transport.get_pid())
    drain_s = _GRACE_S
    try:
        reason = await _wait(spec, transport, child, cancel)
        if reason == "exited":
            drain_s = _DRAIN_S
        else:
            await _end(transport, child, _GRACE_S if reason == "cancelled" else _TIMEOUT_GRACE_S)
        # Who is about to end may do so by itself.
        await asyncio.wait((child.closed,), timeout=_GRACE_S)
        return ChildEnd(transport.get_returncode(), reason)
    finally:
        # Whatever happened, also to us: nothing of the group lives on. Only somebody who has left it can
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
    """Hands on output, and knows when the child is gone and when its output has ended."""

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


async def _start(
    spec: ChildSpec, on_output: Callable[[bytes], None]
) -> tuple[asyncio.SubprocessTransport, _Child]:
    return await asyncio.get_running_loop().subprocess_exec(
        lambda: _Child(on_output),
        *spec.argv,
        stdin=subprocess.PIPE if spec.feed or os.name != "nt" else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=spec.cwd,
        env=dict(spec.environment),
        start_new_session=os.name != "nt",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


async def _wait(
    spec: ChildSpec, transport: asyncio.SubprocessTransport, child: _Child, cancel: CancelToken
) -> Literal["exited", "timeout", "cancelled"]:
    feeding = asyncio.ensure_future(_feed(spec, transport))
    try:
        with cancel_future(cancel) as cancelled:
            done, _ = await asyncio.wait(
                (child.exited, cancelled), timeout=spec.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
    finally:
        feeding.cancel()
        await asyncio.wait((feeding,))
    if not feeding.cancelled():
        feeding.result()
    if child.exited in done:
        return "exited"
    return "cancelled" if cancelled in done else "timeout"


async def _feed(spec: ChildSpec, transport: asyncio.SubprocessTransport) -> None:
    if spec.feed is None:
        return
    loop = asyncio.get_running_loop()
    stdin = transport.get_pipe_transport(0)
    assert isinstance(stdin, asyncio.WriteTransport)

    def write(data: bytes) -> None:
        loop.call_soon_threadsafe(stdin.write, data)

    try:
        # What a thread has written reaches the loop before the end of the thread does.
        await spec.feed(write)
    finally:
        # Also when there is nothing to feed: the child must not wait for it.
        stdin.close()


async def _end(transport: asyncio.SubprocessTransport, child: _Child, grace_s: float) -> None:
    """Ask the group to end, and after a while make it."""
    signal_group(transport, signal.SIGTERM)
    await asyncio.wait((child.exited,), timeout=grace_s)
    signal_group(transport, KILL)
    await asyncio.wait((child.exited,), timeout=_DRAIN_S)


if sys.platform == "win32":
    KILL = signal.SIGTERM

    def signal_group(transport: asyncio.SubprocessTransport, sent: signal.Signals) -> None:
        """Send a signal to a child and everything it started; on Windows end them."""
        # Windows knows no groups to signal. Its own tool ends a tree of processes, by an id that may be
        # somebody else's once the child is gone.
        if transport.get_returncode() is None:
            with contextlib.suppress(OSError):
                subprocess.run(
                    ["taskkill", "/T", "/F", "/PID", str(transport.get_pid())],
                    capture_output=True,
                    check=False,
                )

else:
    KILL = signal.SIGKILL

    def signal_group(transport: asyncio.SubprocessTransport, sent: signal.Signals) -> None:
        """Send a signal to a child and everything it started; on Windows end them."""
        # The child leads its group, which bears its id. Gone is what was wanted.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), sent)

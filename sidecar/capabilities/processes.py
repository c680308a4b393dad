"""Child processes that end when they should: with their whole group, and with the daemon.

The problem: a command of a model may start anything, and nothing of it may outlive the call, the session or
the daemon, however these end. So a child runs below a supervisor (:mod:`sidecar.capabilities.supervisor`), a
small process in a session of its own, which ends everything that the child has started: when the child has
ended, when it is asked to, and when the daemon is gone. That it sees by a pipe (the *lifeline*) of which only
the daemon holds the other end.

A child that is given input starts no others, and is signalled with its group. Output is handed on as it
comes, both streams in one. Nothing here waits for a pipe that a process which cannot be killed holds open. On
Windows, where this has never run, psutil ends the tree of descendants instead, and a job object ends the
children of a killed daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.workspace.files import hold_folder

_GRACE_S = 0.04
_TIMEOUT_GRACE_S = 2.0
_DRAIN_S = 1.0
_ROUNDS = 3
"""How often descendants are looked for: one may start another while it is being killed."""
_SUPERVISOR = (sys.executable, "-I", "-S", "-X", "utf8", str(Path(__file__).with_name("supervisor.py")))

END_REQUEST = b"t"
"""Written into a lifeline, it asks the child to end."""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

InputWriter: TypeAlias = Callable[[Callable[[bytes], None]], Awaitable[None]]
"""Writes to a child's standard input with the function it is given. Contract: ends when it is cancelled."""


class ChildSpec(Value):
    """A command to run in the resolved folder *cwd*.

    *write_input* is awaited once the child runs, with a function that writes to its standard input from any
    thread; then the input ends. Without it the input stays open, and silent, for as long as the child runs.
    """

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float
    write_input: InputWriter | None = None


class ChildEnd(Value):
    """The end of a child: its exit code (negative for a signal), and the reason."""

    exit_code: int | None
    reason: Literal["exited", "timeout", "cancelled"]


def supervise(argv: Sequence[str], lifeline: int = 0) -> list[str]:
    """Return a command that runs *argv*, and ends it with everything it has started.

    Args:
        argv: the command.
        lifeline: the descriptor of the reading end of a pipe, passed on to the supervisor. Only the daemon
            may hold the writing end; closing that ends the command. With 0 the command itself has no input.
    """
    return list(argv) if os.name == "nt" else [*_SUPERVISOR, str(lifeline), *argv]


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
        FileAccessError: a part of the path of its folder has become a link.
    """
    is_supervised = spec.write_input is None and os.name != "nt"
    with hold_folder(spec.cwd) as folder:
        transport, child = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Child(on_output),
            *(supervise(spec.argv) if is_supervised else spec.argv),
            stdin=subprocess.PIPE if is_supervised or spec.write_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Only Linux lets a process enter a folder that it holds open by a path.
            cwd=f"/proc/self/fd/{folder}" if sys.platform == "linux" else spec.cwd,
            env=dict(spec.environment),
            start_new_session=os.name != "nt",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    on_gone = on_start(transport.get_pid())
    lifeline = transport.get_pipe_transport(0) if is_supervised else None
    assert lifeline is None or isinstance(lifeline, asyncio.WriteTransport)
    drain_s = _GRACE_S
    try:
        reason = await child.wait_for_end(spec, transport, cancel)
        if reason == "exited":
            drain_s = _DRAIN_S
        else:
            if lifeline is None:
                signal_group(transport, signal.SIGTERM)
            else:
                lifeline.write(END_REQUEST)
            grace_s = _GRACE_S if reason == "cancelled" else _TIMEOUT_GRACE_S
            await asyncio.wait((child.exited,), timeout=grace_s)
        await _end_by_force(transport, child, lifeline)
        return ChildEnd(transport.get_returncode(), reason)
    finally:
        # Whatever happened, also to us: nothing lives on. A process that cannot be killed may still hold the
        # pipe open then, and is not waited for.
        try:
            await _end_by_force(transport, child, lifeline)
            await asyncio.wait((child.closed,), timeout=drain_s)
        finally:
            transport.close()
            on_gone()


async def _end_by_force(
    transport: asyncio.SubprocessTransport, child: _Child, lifeline: asyncio.BaseTransport | None
) -> None:
    """End a child with all that it has started; nothing to do when it has ended."""
    if lifeline is not None:
        lifeline.close()
        await asyncio.wait((child.exited,), timeout=_DRAIN_S)
    if not child.exited.done():
        signal_group(transport, KILL)
        await asyncio.wait((child.exited,), timeout=_DRAIN_S)


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
    """Send a signal to the group that a child leads. By force, and on Windows, its descendants end too."""
    pid = transport.get_pid()
    if sys.platform != "win32" and sent != KILL:
        # The child leads its group, which bears its id. A group that is gone is as it should be.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, sent)
    elif transport.get_returncode() is None:  # else its id may be that of another process by now
        import psutil  # not above: elsewhere, and mostly here, the system itself does this

        with contextlib.suppress(psutil.Error):
            child = psutil.Process(pid)
            # A supervisor that has had no time yet starts nothing from here on, and still adopts orphans.
            child.suspend()
            for _ in range(_ROUNDS):
                for process in child.children(recursive=True):
                    with contextlib.suppress(psutil.Error):  # one that is gone stays gone
                        process.kill()
        transport.kill()

"""Bytes to and from the daemon: a process of our own, or a socket of one that runs already.

A link never looks into the bytes. It ends only the process it started, by that process's own handle, and
closing it takes a bounded time whatever the daemon does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from sidecar_client.errors import ConnectionLost

__all__ = ["Link", "ProcessLink", "Receiver", "SocketLink"]

_STDOUT: Final = 1
_STDERR: Final = 2
_TAIL_BYTES: Final = 8 * 1024
_LAST_WORDS_S: Final = 0.5
"""How long the exit code and the rest of stderr may take to follow the end of stdout."""

_REAP_S: Final = 1.0
"""How long the system may take to end a killed process, or to close what we have closed."""


class Receiver(Protocol):
    """Who takes the bytes. Neither method may raise."""

    def received(self, data: bytes) -> None:
        """Take what has come in."""
        ...

    def lost(self, error: ConnectionLost) -> None:
        """Learn that nothing more will come; called once at most."""
        ...


class Link(Protocol):
    """One open connection."""

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it runs, and for a process that is not ours."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The end of what the process wrote to its standard error."""
        ...

    def write(self, data: bytes) -> None:
        """Queue *data*; after the end it is dropped."""
        ...

    async def drain(self) -> None:
        """Wait until the queue is short enough for more."""
        ...

    def resume_writing(self) -> None:
        """Let go of whoever waits in :meth:`drain`."""
        ...

    async def close(self, grace_s: float) -> None:
        """Flush, close, and see the process out: end of input, then terminate, then kill, *grace_s* apart."""
        ...


class _Flow:
    """Whether the queue of outgoing bytes has room, as asyncio's transports tell it."""

    def __init__(self) -> None:
        self._room = asyncio.Event()
        self._room.set()

    def pause_writing(self) -> None:
        """Make whoever writes wait. Called by asyncio."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let go of whoever waits in :meth:`drain`."""
        self._room.set()

    async def drain(self) -> None:
        """Wait until the queue is short enough for more."""
        await self._room.wait()


class ProcessLink(_Flow, asyncio.SubprocessProtocol):
    """The standard input and output of a process this client started."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__()
        self._receiver = receiver
        self._open = {_STDOUT, _STDERR}
        self._tail = bytearray()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._told = False

    @classmethod
    async def start(
        cls, command: Sequence[str], receiver: Receiver, cwd: Path, env: Mapping[str, str]
    ) -> ProcessLink:
        """Start *command* in *cwd* with *env* added to this process's variables.

        In a session of its own: an interrupt from the terminal is for the script, which then closes in order.
        """
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.subprocess_exec(
                lambda: cls(receiver), *command, cwd=cwd, env={**os.environ, **env}, start_new_session=True
            )
        except OSError as error:
            raise ConnectionLost(f"cannot start {command[0]!r} in {str(cwd)!r}: {error}") from error
        return link

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it runs."""
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        """The end of what the process wrote to its standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    def write(self, data: bytes) -> None:
        """Queue *data*; after the end it is dropped."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self, grace_s: float) -> None:
        """Close its input, then terminate, then kill, *grace_s* apart; at once when it is dead."""
        try:
            self._stdin.close()
            if not await _within(grace_s, self._exited):
                await self._insist(grace_s)
        finally:
            self._transport.close()
        await _within(_REAP_S, self._closed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the handles. Called by asyncio, as the rest below."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._transport, self._stdin = transport, stdin

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Hand on the output; keep the end of the errors."""
        if fd == _STDOUT:
            self._receiver.received(data)
        else:
            self._tail += data
            del self._tail[:-_TAIL_BYTES]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """A daemon whose output ended is as good as gone."""
        self._open.discard(fd)
        self._tell_or_wait(fd == _STDOUT)
        self.resume_writing()

    def process_exited(self) -> None:
        """The process is gone; a child of it may hold its pipes open still."""
        self._exited.set()
        self._tell_or_wait(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Everything is closed."""
        self._closed.set()

    async def _insist(self, grace_s: float) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself in the meantime
            self._transport.terminate()
            if not await _within(grace_s, self._exited):
                self._transport.kill()
                await _within(_REAP_S, self._exited)

    def _tell_or_wait(self, is_end: bool) -> None:
        if self._exited.is_set() and not self._open:
            self._tell()
        elif is_end and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._tell)

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._told:
            self._told = True
            self.resume_writing()
            reason = _reason(self.exit_code)
            self._receiver.lost(
                ConnectionLost(reason, exit_code=self.exit_code, stderr_tail=self.stderr_tail)
            )


class SocketLink(_Flow, asyncio.Protocol):
    """A unix socket of a daemon that somebody else started, and that stays when we leave."""

    exit_code: int | None = None
    stderr_tail = ""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__()
        self._receiver = receiver
        self._closed = asyncio.Event()

    @classmethod
    async def open(cls, path: Path, receiver: Receiver) -> SocketLink:
        """Connect to the socket at *path*."""
        if os.name == "nt":
            raise ConnectionLost("unix sockets are not available on Windows; start a daemon with spawn()")
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_unix_connection(lambda: cls(receiver), str(path))
        except OSError as error:
            raise ConnectionLost(f"no daemon answers at {str(path)!r}: {error}") from error
        return link

    def write(self, data: bytes) -> None:
        """Queue *data*; after the end it is dropped."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def close(self, grace_s: float) -> None:
        """Flush and close, at most *grace_s*."""
        self._transport.close()
        try:
            await _within(grace_s, self._closed)
        finally:
            if not self._closed.is_set():
                self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the handle. Called by asyncio, as the rest below."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand it on."""
        self._receiver.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so."""
        self._closed.set()
        self.resume_writing()
        self._receiver.lost(ConnectionLost("the daemon closed the connection"))


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Return whether *event* is set in time."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _reason(exit_code: int | None) -> str:
    if exit_code is None:
        return "the daemon closed its output and still runs"
    if exit_code < 0:
        return f"the daemon was ended by signal {-exit_code}"
    return f"the daemon ended with exit code {exit_code}"

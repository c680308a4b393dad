"""Links: bytes to and from a daemon, in a process of this client or at a socket of a running daemon.

A link never looks into the bytes. It ends only a process that it started, by the handle of that process, and
closing it takes a bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from sidecar_client.errors import ConnectionLost

if TYPE_CHECKING:
    from sidecar_client.rpc import RpcConnection

_STDOUT: Final = 1
_STDERR: Final = 2
_TAIL_BYTES: Final = 8 * 1024
_LAST_WORDS_S: Final = 0.5
"""How long to wait after the end of stdout for the exit code and the rest of stderr."""

_REAP_S: Final = 1.0
"""How long the system may take to end a killed process, or to close a connection."""


class Link(Protocol):
    """One open connection."""

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs, and for a process of another program."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The end of the standard error of the process."""
        ...

    def write(self, data: bytes) -> None:
        """Queue *data*; after the end it is dropped."""
        ...

    async def drain(self) -> None:
        """Wait until the queue is short enough for more."""
        ...

    def resume_writing(self) -> None:
        """Wake every caller of :meth:`drain`."""
        ...

    async def close(self, grace_s: float) -> None:
        """Flush and close; end the process by end of input, then terminate, then kill, *grace_s* apart."""
        ...


class _FlowControl:
    """The flow control of a :class:`Link`: whether asyncio's queue of outgoing bytes has room."""

    def __init__(self) -> None:
        self._room = asyncio.Event()
        self._room.set()

    def pause_writing(self) -> None:
        """Make writers wait. For asyncio."""
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    async def drain(self) -> None:
        await self._room.wait()


class ProcessLink(_FlowControl, asyncio.SubprocessProtocol):
    """The standard input and output of a process this client started."""

    def __init__(self, receiver: RpcConnection) -> None:
        super().__init__()
        self._receiver = receiver
        self._open = {_STDOUT, _STDERR}
        self._tail = bytearray()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_lost_reported = False

    @classmethod
    async def start(
        cls, command: Sequence[str], receiver: RpcConnection, cwd: Path, env: Mapping[str, str]
    ) -> ProcessLink:
        """Start a process in a session of its own.

        An interrupt from the terminal then reaches only the script, which closes the process in order.

        Args:
            command: the program and its arguments.
            receiver: the reader of the output.
            cwd: the folder to run in.
            env: environment variables to add.

        Raises:
            ConnectionLost: the program cannot be run.
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
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        return self._tail.decode("utf-8", "replace").strip()

    def write(self, data: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self, grace_s: float) -> None:
        """Close the input, then terminate, then kill, *grace_s* apart; at once when it has ended."""
        try:
            self._stdin.close()
            if not await _within(grace_s, self._exited):
                await self._terminate(grace_s)
        finally:
            self._transport.close()
        await _within(_REAP_S, self._closed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the handles. For asyncio, as the methods below."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._transport, self._stdin = transport, stdin

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Pass on the output; keep the end of the errors."""
        if fd == _STDOUT:
            self._receiver.on_data(data)
        else:
            self._tail += data
            del self._tail[:-_TAIL_BYTES]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Report the loss soon: a daemon without output is of no use."""
        self._open.discard(fd)
        self._report_loss_soon(fd == _STDOUT)
        self.resume_writing()

    def process_exited(self) -> None:
        """Report the loss soon: a child of the process may still hold its pipes open."""
        self._exited.set()
        self._report_loss_soon(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that everything is closed."""
        self._closed.set()

    async def _terminate(self, grace_s: float) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself in the meantime
            self._transport.terminate()
            if not await _within(grace_s, self._exited):
                self._transport.kill()
                await _within(_REAP_S, self._exited)

    def _report_loss_soon(self, is_end: bool) -> None:
        if self._exited.is_set() and not self._open:
            self._report_loss()
        elif is_end and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._report_loss)

    def _report_loss(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_lost_reported:
            self._is_lost_reported = True
            self.resume_writing()
            code = self.exit_code
            if code is None:
                reason = "the daemon closed its output and is still running"
            elif code < 0:
                reason = f"the daemon was ended by signal {-code}"
            else:
                reason = f"the daemon ended with exit code {code}"
            self._receiver.on_lost(ConnectionLost(reason, exit_code=code, stderr_tail=self.stderr_tail))


class SocketLink(_FlowControl, asyncio.Protocol):
    """A unix socket of a daemon that another program started, and that stays running."""

    exit_code: int | None = None
    stderr_tail = ""

    def __init__(self, receiver: RpcConnection) -> None:
        super().__init__()
        self._receiver = receiver
        self._closed = asyncio.Event()

    @classmethod
    async def open(cls, path: Path, receiver: RpcConnection) -> SocketLink:
        """Connect to the socket at *path*."""
        if os.name == "nt":
            raise ConnectionLost("unix sockets are not available on Windows; start a daemon with spawn()")
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_unix_connection(lambda: cls(receiver), str(path))
        except OSError as error:
            raise ConnectionLost(f"no daemon is running at {str(path)!r}: {error}") from error
        return link

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def close(self, grace_s: float) -> None:
        self._transport.close()
        try:
            await _within(grace_s, self._closed)
        finally:
            if not self._closed.is_set():
                self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the handle. For asyncio, as the methods below."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass on *data*."""
        self._receiver.on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss."""
        self._closed.set()
        self.resume_writing()
        self._receiver.on_lost(ConnectionLost("the daemon closed the connection"))


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Return whether *event* is set in time."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()

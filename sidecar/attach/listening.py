"""The listeners of a daemon: a unix socket, and a loopback port.

Of a unix socket, which the holder of the daemon's lock makes, only processes of this user are admitted, as
reported by the kernel; the folder of the socket keeps others out already. The port is for clients without
unix sockets, and off by default but on Windows. Any user of the machine, and any page in a browser, can reach
a loopback port. So a connection is ignored until it has sent the token of the daemon. It never listens on an
address that other machines can reach.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import os
import secrets
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from sidecar._internal.errors import SidecarError, log_fault
from sidecar.attach.connecting import peer_uid
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.streams import SocketStream
from sidecar.protocol.errors import acp_code, error_data, lsp_code
from sidecar.protocol.framing import frame_with_header, frame_with_newline, is_line_framed
from sidecar.protocol.jsonrpc import encode_error
from sidecar.transport.bounds import Strangers

if TYPE_CHECKING:
    from sidecar.attach.broker import Broker

_log = logging.getLogger("sidecar.attach")

Serve: TypeAlias = Callable[[socket.socket], None]
"""Receives a connection that may stay, and owns it."""

_BACKLOG: Final = 128
_RETRY_S: Final = 1.0
"""How long to accept nothing when the process has no descriptors left."""

AUTH_S: Final = 5.0
"""The time for the first line of a connection, in seconds."""

MAX_PENDING: Final = 32
"""The most connections without a token at a time."""

_LINE_BYTES: Final = 256
_PREFIX: Final = b"authorization: bearer "


class Listener:
    """Accepts connections on a socket, which it owns.

    Args:
        listening: a bound socket.
        serve: receives each admitted connection.
    """

    def __init__(self, listening: socket.socket, serve: Serve) -> None:
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._socket = listening
        self._serve = serve
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: listening.close())

    @property
    def has_waiting(self) -> bool:
        """Whether a client waits to be accepted."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def admits(self, _connection: socket.socket) -> bool:
        """Whether a connection that was just accepted may stay. Raises OSError for one that is gone."""
        return True

    def hide(self) -> None:
        """Prevent new clients from finding it; nothing to do here, because a port cannot be hidden."""

    def show(self) -> None:
        """Let clients find it again."""

    def close(self) -> None:
        """Accept no more clients; a second call does nothing."""
        self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                log_fault("accepting a client", error)
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                is_admitted = self.admits(connection)
            except OSError as error:  # the client is gone already
                log_fault("identifying a client", error)
                is_admitted = False
            if is_admitted:
                connection.setblocking(False)
                self._serve(connection)
            else:
                connection.close()
            await asyncio.sleep(0)  # many new clients must not keep the others waiting


class AuthenticationError(SidecarError):
    """The connection did not begin with the right token."""

    kind: ClassVar[str] = "authRequired"


def open_port(port: socket.socket, paths: DaemonPaths, broker: Broker) -> Listener:
    """Serve clients that know the token, and write port and token into the daemon's file.

    Args:
        port: a bound socket.
        paths: the files of the daemon.
        broker: serves the admitted connections.
    """
    token = secrets.token_urlsafe()
    auth = TokenAuth(token)
    listener = Listener(port, lambda connection: broker.serve(connection, auth.authenticate))
    write_tcp_file(paths.tcp, port, token)
    return listener


def bind_loopback(address: str) -> socket.socket:
    """Return a socket bound to *address*, ``HOST:PORT`` with a loopback host; port 0 takes any free one.

    Raises AttachError for every other address, and for one that is in use.
    """
    host, colon, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise AttachError(f"--listen {address}: the form is HOST:PORT, as in 127.0.0.1:0")
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        raise AttachError(
            f"--listen {address}: the host must be in numbers, as in 127.0.0.1:{port}"
        ) from None
    if not found.is_loopback:
        raise AttachError(
            f"--listen {address}: only a loopback address is allowed; other machines use ssh and sidecar shim"
        )
    bound = socket.socket(socket.AF_INET if found.version == 4 else socket.AF_INET6)
    if exclusive := getattr(
        socket, "SO_EXCLUSIVEADDRUSE", 0
    ):  # or other users could listen there too on Windows
        bound.setsockopt(socket.SOL_SOCKET, exclusive, 1)
    try:
        bound.bind((host, int(port)))
    except OSError as error:
        bound.close()
        raise AttachError(f"--listen {address}: {error.strerror}") from error
    return bound


def write_tcp_file(path: Path, bound: socket.socket, token: str) -> None:
    """Write the address of *bound* and its token, readable for this user alone."""
    host, port = bound.getsockname()[:2]
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({"host": host, "port": port, "token": token}, file)


class TokenAuth:
    """Admits connections that begin with the line ``Authorization: Bearer TOKEN``."""

    def __init__(self, token: str, *, auth_s: float = AUTH_S) -> None:
        self._token = token.encode()
        self._strangers = Strangers(MAX_PENDING, auth_s)

    async def authenticate(self, stream: SocketStream) -> bool:
        """Remove the token from the input and return whether it is right; a wrong one gets an error."""
        line = None
        with suppress(TimeoutError):
            async with self._strangers.admit():
                line = await stream.take_line(_LINE_BYTES)
        given = (line or b"").strip()
        is_bearer = given[: len(_PREFIX)].lower() == _PREFIX
        is_right = is_bearer and hmac.compare_digest(given[len(_PREFIX) :].strip(), self._token)
        if not is_right:
            error = AuthenticationError(
                "this connection must begin with the daemon's token",
                hint='begin with the line "Authorization: Bearer TOKEN"; '
                "tcp.json in the state directory has it",
            )
            is_line = is_line_framed(line or stream.early_bytes)
            frame, code = (frame_with_newline, acp_code) if is_line else (frame_with_header, lsp_code)
            stream.write(frame(encode_error(None, code(error.kind), error.message, error_data(error))))
        return is_right


if sys.platform == "win32":

    def open_listener(paths: DaemonPaths, broker: Broker) -> Listener:
        """Serve this user's clients at a free port, which the daemon's file names. Raises AttachError."""
        return open_port(bind_loopback("127.0.0.1:0"), paths, broker)

else:

    def open_listener(paths: DaemonPaths, broker: Broker) -> Listener:
        """Serve this user's clients at the socket of *paths*. Raises OSError when it cannot be created."""
        return UnixListener(paths.socket, broker.serve)

    class UnixListener(Listener):
        """Listens at *path* for processes of this user; *uid_of* returns the user of a connection.

        The caller holds the daemon's lock, so that an existing socket is stale. Raises OSError when it cannot
        be created.
        """

        def __init__(
            self, path: Path, serve: Serve, uid_of: Callable[[socket.socket], int] = peer_uid
        ) -> None:
            self._uid_of = uid_of
            self._path = path
            self._hidden = path.with_suffix(".leaving")
            for stale in (path, self._hidden):
                stale.unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX)
            try:
                listening.bind(str(path))
                path.chmod(0o600)
                super().__init__(listening, serve)
            except BaseException:
                listening.close()
                raise

        def admits(self, connection: socket.socket) -> bool:
            uid = self._uid_of(connection)
            if uid != os.geteuid():
                _log.error(f"a process of user {uid} was refused")
            return uid == os.geteuid()

        def hide(self) -> None:
            """Rename the socket: no new client can connect, and waiting ones can still be accepted."""
            with suppress(FileNotFoundError):  # it was removed, so that no client can connect either
                self._path.rename(self._hidden)

        def show(self) -> None:
            """Give the socket its name again."""
            with suppress(FileNotFoundError):
                self._hidden.rename(self._path)

        def close(self) -> None:
            """Accept no more clients, and remove the socket."""
            if not self._task.cancelling():
                for path in (self._path, self._hidden):
                    with suppress(OSError):
                        path.unlink()
            super().close()

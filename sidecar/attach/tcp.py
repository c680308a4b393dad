"""The loopback port of a shared daemon, for clients without unix sockets. It is off by default.

Any user of the machine, and any page in a browser, can reach a loopback port. So a connection is ignored
until it has sent the daemon's token. The daemon never listens on an address that other machines can reach.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import secrets
import socket
from pathlib import Path
from typing import ClassVar, Final

from sidecar._internal.errors import SidecarError
from sidecar.attach.broker import Broker
from sidecar.attach.listener import Listener
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.streams import SocketStream, over_socket, read_hello
from sidecar.protocol.errors import acp_code, error_data, lsp_code
from sidecar.protocol.framing import frame_with_header, frame_with_newline, is_line_framed
from sidecar.protocol.jsonrpc import encode_error

AUTH_S: Final = 5.0
"""The time for the first line of a connection, in seconds."""

MAX_PENDING: Final = 32
"""The most connections without a token at a time; of more, the one that has waited longest is closed.

So silent strangers keep no one out: a client sends its token at once, and no stranger that came before it.
"""

_LINE_BYTES: Final = 256
_PREFIX: Final = b"authorization: bearer "


class AuthenticationError(SidecarError):
    """The connection did not begin with the right token."""

    kind: ClassVar[str] = "authRequired"


def open_listener(paths: DaemonPaths, broker: Broker) -> Listener:
    """Serve this user's clients at a free port, which the daemon's file names. Raises AttachError."""
    return open_port(bind_loopback("127.0.0.1:0"), paths, broker)


def open_port(port: socket.socket, paths: DaemonPaths, broker: Broker) -> Listener:
    """Serve clients that know the token, and write port and token into the daemon's file.

    Args:
        port: a bound socket.
        paths: the files of the daemon.
        broker: serves the admitted connections.
    """
    token = secrets.token_urlsafe()
    auth = TokenAuth(token)

    async def read_preamble(stream: SocketStream) -> bool:
        return await auth.authenticate(stream) and await read_hello(stream)

    listener = Listener(port, lambda _: True, lambda found: broker.serve(over_socket(found), read_preamble))
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
        self._auth_s = auth_s
        self._pending: dict[asyncio.Timeout, None] = {}

    async def authenticate(self, stream: SocketStream) -> bool:
        """Remove the token from the input and return whether it is right; a wrong one gets an error."""
        line = None
        if len(self._pending) >= MAX_PENDING:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.reschedule(0)
        limit = asyncio.timeout(self._auth_s)
        try:
            async with limit:
                self._pending[limit] = None
                line = await stream.take_line(_LINE_BYTES)
        except TimeoutError:
            pass
        finally:
            self._pending.pop(limit, None)
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

"""The loopback port of a shared daemon, for clients without unix sockets. Off unless it was asked for.

Any user of the machine, and any page in a browser, can reach a loopback port: nothing that comes in there is
looked at before it has shown the daemon's token. Never listens on an address that others can reach.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import socket
from pathlib import Path
from typing import ClassVar, Final

from sidecar._internal.errors import SidecarError
from sidecar.attach.errors import AttachError
from sidecar.attach.streams import SocketStream
from sidecar.protocol.errors import acp_code, error_data, lsp_code
from sidecar.protocol.framing import frame_with_header, frame_with_newline, is_line_framed
from sidecar.protocol.jsonrpc import encode_error

__all__ = ["AuthRequired", "TokenDesk", "bind_loopback", "write_tcp_file"]

AUTH_S: Final = 5.0
"""How long a stranger has for the first line."""

MAX_STRANGERS: Final = 32
"""How many may be asked for their token at once; more are turned away."""

_LINE_BYTES: Final = 256
_PREFIX: Final = b"authorization: bearer "


class AuthRequired(SidecarError):
    """The connection did not begin with the right token."""

    kind: ClassVar[str] = "authRequired"


def bind_loopback(address: str) -> socket.socket:
    """Return a socket bound to *address*, ``HOST:PORT`` with a loopback host; port 0 takes any free one.

    Raises AttachError for every other address, and for one that is taken.
    """
    host, colon, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise AttachError(f"--listen {address}: say HOST:PORT, as in 127.0.0.1:0")
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        raise AttachError(f"--listen {address}: say the host in numbers, as in 127.0.0.1:{port}") from None
    if not found.is_loopback:
        raise AttachError(f"--listen {address}: only loopback addresses; tunnel to one from elsewhere")
    bound = socket.socket(socket.AF_INET if found.version == 4 else socket.AF_INET6)
    if exclusive := getattr(socket, "SO_EXCLUSIVEADDRUSE", 0):  # or others may listen there on Windows, too
        bound.setsockopt(socket.SOL_SOCKET, exclusive, 1)
    try:
        bound.bind((host, int(port)))
    except OSError as error:
        bound.close()
        raise AttachError(f"--listen {address}: {error.strerror}") from error
    return bound


def write_tcp_file(path: Path, bound: socket.socket, token: str) -> None:
    """Write where *bound* listens, and its token, for this user alone to read."""
    host, port = bound.getsockname()[:2]
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({"host": host, "port": port, "token": token}, file)


class TokenDesk:
    """Lets connections in that begin with the line ``Authorization: Bearer TOKEN``."""

    def __init__(self, token: str, *, auth_s: float = AUTH_S) -> None:
        self._token = token.encode()
        self._auth_s = auth_s
        self._n_strangers = 0

    def has_room(self, _connection: socket.socket) -> bool:
        """Whether one more stranger may be asked now."""
        return self._n_strangers < MAX_STRANGERS

    async def ask(self, stream: SocketStream) -> bool:
        """Take the token off the connection and return whether it was right; tell the client if not."""
        self._n_strangers += 1
        try:
            line = await asyncio.wait_for(stream.take_line(_LINE_BYTES), self._auth_s)
        except TimeoutError:
            line = None
        finally:
            self._n_strangers -= 1
        is_right = self._is_right((line or b"").strip())
        if not is_right:
            stream.write(_refusal(line or stream.early))
        return is_right

    def _is_right(self, line: bytes) -> bool:
        is_bearer = line[: len(_PREFIX)].lower() == _PREFIX
        return is_bearer and hmac.compare_digest(line[len(_PREFIX) :].strip(), self._token)


def _refusal(first: bytes) -> bytes:
    """Return what to tell a client without the token, framed as its *first* bytes were."""
    error = AuthRequired(
        "this connection needs the daemon's token first",
        hint='begin with the line "Authorization: Bearer TOKEN"; tcp.json in the state directory has it',
    )
    if is_line_framed(first):
        return frame_with_newline(encode_error(None, acp_code(error.kind), error.message, error_data(error)))
    return frame_with_header(encode_error(None, lsp_code(error.kind), error.message, error_data(error)))

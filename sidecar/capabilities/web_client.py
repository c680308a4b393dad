"""GET requests to the public web: one request at a time, bounded, to an address that was checked.

The problem: a model may be talked into a request to this machine or to its network, where services trust
every client. A check of the host's name is not enough, since a name may stand for another address by the time
it is used (DNS rebinding). So a name is resolved once, all of its addresses must be public ones, and the
connection is made to one of these. Redirects are not followed here; each is a request of its own.

A proxy of the environment is asked for a tunnel to the checked address, never to the name, which it would
resolve again. Addresses that are not public are reached without it. Only where these are allowed may the
proxy be given a name that this machine does not know.

Works in worker threads. Nothing is sent but the request.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from typing import ClassVar, Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from msgspec import Struct

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar._internal.values import Value

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHUNK_BYTES: Final = 65_536
_STEP_S: Final = 10.0
_HEADERS: Final = {
    "User-Agent": "editor-sidecar",
    "Accept": "text/html,text/plain,text/markdown,application/json;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
_SPECIAL_NETS: Final = tuple(
    map(ipaddress.ip_network, ("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))
)
"""Networks for special purposes (RFC 6890) that some versions of Python take for public ones."""

_NAT64_NET: Final = ipaddress.ip_network("64:ff9b::/96")


class FetchError(SidecarError):
    """A page cannot be fetched: a refused address, a failed connection, or a limit."""

    kind: ClassVar[str] = "fetchFailed"


class WebPage(Value, kw_only=True):
    """An answer of a server; *redirect* is the address that it names instead of a page."""

    url: str
    status: int
    content_type: str
    body: bytes = b""
    is_cut: bool = False
    redirect: str | None = None


class WebRequest(Struct):
    """One request; :meth:`stop` ends it from another thread."""

    url: SplitResult
    may_be_private: bool
    timeout_s: float
    max_bytes: int
    resolve: Callable[[str, int], list[str]]
    find_proxy: Callable[[str, str], str | None] = lambda scheme, host: None
    _socket: socket.socket | None = None
    _is_stopped: bool = False

    def stop(self) -> None:
        """End the request: its connection is closed."""
        self._is_stopped = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> WebPage:
        """Send the request and return the answer. Raises FetchError."""
        host, port = self.url.hostname or "", self.url.port or (443 if self.url.scheme == "https" else 80)
        ends_at = time.monotonic() + self.timeout_s
        proxy = self.find_proxy(self.url.scheme, host)
        address = self.choose_address(host, port, has_proxy=proxy is not None)
        connection = http.client.HTTPConnection(host, port)
        try:
            if proxy is None or is_near(address):
                plain = socket.create_connection((address, port), timeout=min(_STEP_S, self.timeout_s))
            else:
                plain = open_tunnel(proxy, address, port, min(_STEP_S, self.timeout_s))
            self._socket = plain
            connection.sock = plain
            if self.url.scheme == "https":
                connection.sock = self._socket = ssl.create_default_context().wrap_socket(
                    plain, server_hostname=host
                )
            path = quote(self.url.path or "/", safe="/%:@!$&'()*+,;=~-._")
            query = f"?{quote(self.url.query, safe='/%:@!$&()*+,;=~-._?[]')}" if self.url.query else ""
            default_port = port == (443 if self.url.scheme == "https" else 80)
            name = f"[{host}]" if ":" in host else host
            headers = {**_HEADERS, "Host": name if default_port else f"{name}:{port}"}
            connection.request("GET", path + query, headers=headers)
            with closing(connection.getresponse()) as response:
                return self.read_answer(response, ends_at)
        except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
            reason = "it was stopped" if self._is_stopped else describe_failure(error)
            raise FetchError(f"cannot fetch {self.url.geturl()}: {reason}") from error
        finally:
            connection.close()
            if self._socket is not None:
                self._socket.close()

    def choose_address(self, host: str, port: int, *, has_proxy: bool) -> str:
        """Return an address of *host*, of which all must be allowed, or *host* for a proxy that knows it.

        Raises FetchError.
        """
        try:
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            if has_proxy and self.may_be_private:
                return host
            raise FetchError(f"there is no host {host!r}", hint="check the spelling") from error
        for address in addresses:
            if not self.may_be_private and not is_public(address):
                raise FetchError(
                    f"{host} is at {address}, which is not an address of the public internet",
                    hint="ask the user; fetch_private = true in config.toml of the state directory allows it",
                )
        # A proxy may well have no way to the newer addresses.
        return min(addresses, key=lambda address: ":" in address) if has_proxy else addresses[0]

    def read_answer(self, response: http.client.HTTPResponse, ends_at: float) -> WebPage:
        """Return the answer, as much of it as is allowed."""
        url, content_type = self.url.geturl(), response.headers.get("Content-Type", "")
        location = response.headers.get("Location")
        if response.status in _REDIRECTS and location:
            target = urljoin(url, location)
            return WebPage(url=url, status=response.status, content_type=content_type, redirect=target)
        is_packed = response.headers.get("Content-Encoding", "").strip().lower() == "gzip"
        unpack = zlib.decompressobj(31) if is_packed else None
        body = bytearray()
        is_cut = False
        while not is_cut and (chunk := response.read1(_CHUNK_BYTES)):
            if time.monotonic() > ends_at:
                raise TimeoutError
            room = self.max_bytes - len(body)
            body += chunk[: room + 1] if unpack is None else unpack.decompress(chunk, room + 1)
            is_cut = len(body) > self.max_bytes
        return WebPage(
            url=url,
            status=response.status,
            content_type=content_type,
            body=bytes(body[: self.max_bytes]),
            is_cut=is_cut,
        )


def open_tunnel(proxy: str, address: str, port: int, timeout_s: float) -> socket.socket:
    """Return a connection to *address* through the *proxy*, which is an http URL.

    Raises OSError, also for a proxy that refuses; no message holds its password.
    """
    try:
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        host, proxy_port = url.hostname, url.port or 80
    except ValueError:
        raise OSError(0, "the proxy of the environment has no valid address") from None
    if url.scheme != "http" or not host:
        raise OSError(0, f"a proxy of the kind {url.scheme!r:.20} is not known here; use an http one")
    headers = {}
    if url.username is not None:
        words = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(words).decode()}"
    tunnel = http.client.HTTPConnection(host, proxy_port, timeout=timeout_s)
    tunnel.set_tunnel(address, port, headers)
    try:
        tunnel.connect()
    except OSError as error:
        tunnel.close()
        raise OSError(0, f"the proxy {host}:{proxy_port}: {error.strerror or error}") from None
    opened: socket.socket = tunnel.sock
    return opened


def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of *host*. Raises OSError for none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def is_near(address: str) -> bool:
    """Whether *address* is one of this machine or its network; a name is none.

    >>> is_near("127.0.0.1"), is_near("wiki.corp")
    (True, False)
    """
    try:
        return not is_public(address)
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether *address* is one of the public internet: not of this machine and no network around it.

    >>> is_public("93.184.215.14"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if found in _NAT64_NET:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found.is_site_local:
            return False
    is_special = any(found in each for each in _SPECIAL_NETS)
    return found.is_global and not (is_special or found.is_multicast or found.is_reserved)


def parse_url(text: str) -> SplitResult:
    """Return the address *text*. Raises InvalidInput unless it is one of the web, without a password."""
    try:
        url = urlsplit(text.strip())
        is_web = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_web = False
    if not is_web or any(sign.isspace() or ord(sign) < 32 for sign in text.strip()):
        raise InvalidInput(f"{text[:200]!r} is not an address of the web", hint="give an http or https URL")
    if url.username is not None or url.password is not None:
        raise InvalidInput("the URL holds a name or a password", hint="leave it out")
    return url._replace(fragment="")


def describe_failure(error: Exception) -> str:
    """Return why a request failed, in words."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"the answer is not valid ({type(error).__name__})"

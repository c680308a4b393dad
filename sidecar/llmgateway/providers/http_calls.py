"""Requests with a key, over HTTP.

An SDK takes a second to import, and a person waits for it. A request with a key needs an address, a few
headers, and the body of a refusal, and no SDK. All adapters but one send their requests here.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.request import getproxies

import msgspec

from sidecar import __version__
from sidecar._internal.env import read_raw
from sidecar.llmgateway.providers.adapter import CONNECT_S, Endpoint, SdkArguments
from sidecar.llmgateway.providers.body import EventBody
from sidecar.llmgateway.providers.windows import direct_mounts

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_PROBE_S: Final = 60
_PROBES: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), _PROBE_S)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL")
        if hasattr(socket, name)
    ),
)
"""The socket options for probes of a silent connection, so that no router forgets it while a model thinks."""


class RefusedRequestError(Exception):
    """A server has refused a request.

    Attributes:
        status: the HTTP status.
        headers: the headers of the answer.
        text: its body.
        body: the JSON value of that, else the text.
        message: its text where that is not JSON, else a sentence with the status.
    """

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.status = status
        self.headers = dict(headers)
        self.text = text.strip()
        self.message = f"Error code: {status}"
        self.body: Any = self.text
        try:
            self.body = json.loads(self.text)
        except (ValueError, RecursionError):
            self.message = self.text or self.message
        super().__init__(self.message)


def open_client(
    endpoint: Endpoint, address: str, headers: Mapping[str, str], variable: str | None = None
) -> AsyncClient:
    """Return an HTTP client; blocks.

    Args:
        endpoint: the provider.
        address: the address that the paths of requests are appended to.
        headers: the headers of every request.
        variable: the environment variable that adds headers to the requests of an SDK, a line for each; they
            go before *headers*.
    """
    # Imported here, in the thread that connects: it takes tenths of a second.
    from httpx2 import AsyncClient, AsyncHTTPTransport, Headers, Limits, Timeout

    all_headers = Headers({"Accept": "application/json", "Content-Type": "application/json"})
    all_headers["User-Agent"] = f"editor-sidecar/{__version__}"
    all_headers.update(headers)
    added = read_raw(variable) if variable is not None else None
    for line in (added or "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            all_headers[name.strip()] = value.strip()
    limits = Limits(max_connections=1000, max_keepalive_connections=100)
    # With a transport of its own a client ignores the proxies of the environment.
    probed = None if getproxies() else AsyncHTTPTransport(limits=limits, socket_options=_PROBES)
    return AsyncClient(
        base_url=address,
        headers=all_headers,
        timeout=Timeout(endpoint.idle_timeout_s, connect=CONNECT_S),
        limits=limits,
        follow_redirects=True,
        transport=probed,
        mounts=direct_mounts(endpoint.base_url),
    )


@asynccontextmanager
async def post(
    client: AsyncClient, path: str, request: SdkArguments, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Response]:
    """Send *request* to *path* and stream the answer. Raises RefusedRequestError."""
    content = msgspec.json.encode(request)
    async with client.stream("POST", path, content=content, headers=headers) as response:
        if not response.is_success:
            await response.aread()
            raise refusal_in(response)
        yield response


@asynccontextmanager
async def stream_events(
    client: AsyncClient, path: str, request: SdkArguments, headers: Mapping[str, str] | None = None
) -> AsyncIterator[AsyncIterator[list[dict[str, Any]]]]:
    """Send *request* to *path* and stream the events of the answer. Raises RefusedRequestError."""
    async with post(client, path, request, headers) as response:
        yield EventBody(response).events()


def refusal_in(response: Response) -> RefusedRequestError:
    """Return the refusal in *response*, which was read."""
    return RefusedRequestError(response.status_code, response.headers, response.text)

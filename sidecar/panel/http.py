"""Just as much of HTTP as a page of one's own needs: one request and one response for each connection.

It never keeps a connection open for a second request, so a response may end where the connection does. That
is how an answer of unknown length is streamed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from sidecar._internal.values import Value

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
HEAD_BYTES: Final = 16 * 1024
"""The most bytes of a request line and its headers."""

_LENGTH: Final = re.compile(r"[0-9]{1,15}")


class RequestError(Exception):
    """A request that is refused.

    Attributes:
        status: the status of the response.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class PageRequest(Value):
    """The head of one request; the names of *headers* are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


async def read_head(reader: asyncio.StreamReader) -> PageRequest:
    """Return the request of a connection without its body, which nobody need hold for a stranger.

    Raises RequestError, and IncompleteReadError at the end of the connection.
    """
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
    except (asyncio.LimitOverrunError, UnicodeDecodeError):
        raise RequestError(HTTPStatus.BAD_REQUEST, "the head of the request cannot be read") from None
    line, *lines = head.rstrip("\r\n").split("\r\n")
    pairs = [
        (name.strip().lower(), value.strip()) for name, _, value in (each.partition(":") for each in lines)
    ]
    headers = dict(pairs)
    words = line.split(" ")
    length = headers.get("content-length", "0")
    if (
        len(words) != 3
        or not all(words)
        or len(headers) != len(pairs)
        or not _LENGTH.fullmatch(length)
        or "transfer-encoding" in headers
    ):
        raise RequestError(HTTPStatus.BAD_REQUEST, "the head of the request is not understood")
    if int(length) > MAX_BODY_BYTES:
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message has at most {MAX_BODY_BYTES} bytes"
        )
    return PageRequest(words[0], words[1].partition("?")[0], headers)


async def read_body(reader: asyncio.StreamReader, request: PageRequest) -> bytes:
    """Return the body of *request*. Raises IncompleteReadError."""
    return await reader.readexactly(int(request.headers.get("content-length", "0")))


def response(status: HTTPStatus, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return a response, or with an empty *body* and no Content-Length in *headers* the head of a stream."""
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join((*lines, "Connection: close", "", "")).encode("ascii") + body

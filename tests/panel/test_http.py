"""Heads of requests: one that is not understood is refused, and raises nothing else."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import pytest

from sidecar.panel.server import RequestError, read_head


async def read(head: str) -> tuple[str, str]:
    reader = asyncio.StreamReader()
    reader.feed_data(f"{head}\r\n\r\n".encode())
    reader.feed_eof()
    request = await read_head(reader)
    return request.method, request.path


@pytest.mark.parametrize(
    "head",
    [
        *("", " ", "GET", "GET /", "GET  /", "GET  / HTTP/1.1", "GET /  HTTP/1.1", " GET / HTTP/1.1"),
        "GET / HTTP/1.1 x",
        "POST / HTTP/1.1\r\nContent-Length: 5  5",
        "POST / HTTP/1.1\r\nContent-Length: -1",
        "POST / HTTP/1.1\r\nContent-Length: " + "9" * 5000,
        "GET /\u0663 HTTP/1.1",
    ],
)
async def test_a_head_that_is_not_understood_is_refused(head: str) -> None:
    with pytest.raises(RequestError) as caught:
        await read(head)
    assert caught.value.status == HTTPStatus.BAD_REQUEST


async def test_a_plain_head_is_read() -> None:
    assert await read("GET /a?b=c HTTP/1.1\r\nHost: x") == ("GET", "/a")

"""The server of the panel: strangers get nothing, a page gets the daemon, and it ends with its last page."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest

from sidecar.panel.server import (
    HEAD_BYTES,
    KINDS,
    MAX_BODY_BYTES,
    PanelServer,
    RequestError,
    page_files,
    read_head,
)

pytestmark = pytest.mark.processes

ECHO = """
import sys
while header := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    body = sys.stdin.buffer.read(int(header.split(b":")[1]))
    if b"die" in body:
        sys.exit("the reason of its end")
    sys.stdout.buffer.write(header + b"\\r\\n" + body)
    sys.stdout.buffer.flush()
"""
PATIENCE_S = 20.0


@asynccontextmanager
async def serving(*command: str, unused_s: float = 60.0) -> AsyncIterator[PanelServer]:
    command = command or (sys.executable, "-c", ECHO)
    async with asyncio.timeout(PATIENCE_S), PanelServer(command, ".", "last", unused_s) as server:
        yield server


def split_url(server: PanelServer) -> tuple[str, str]:
    """Return the host and the token."""
    address, _, token = server.url.partition("/#token=")
    return address.removeprefix("http://"), token


class Connection:
    """One request and its response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.head = ""

    @classmethod
    async def open(
        cls,
        server: PanelServer,
        line: str,
        *,
        body: str = "",
        headers: Mapping[str, str | None] | None = None,
    ) -> Connection:
        """Send a request as the page would; *headers* replace its headers, None leaves one out."""
        host, token = split_url(server)
        own = {"Host": host, "Origin": f"http://{host}", "Authorization": f"Bearer {token}"}
        sent = {**own, **(headers or {}), "Content-Length": str(len(body))}
        made = cls(*await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2])))
        lines = [
            f"{line} HTTP/1.1",
            *(f"{name}: {value}" for name, value in sent.items() if value is not None),
        ]
        made.writer.write(("\r\n".join((*lines, "", "")) + body).encode())
        made.head = (await made.reader.readuntil(b"\r\n\r\n")).decode()
        return made

    @property
    def status(self) -> int:
        return int(self.head.split(" ")[1])

    async def line(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.reader.readline())
        return found

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def status(server: PanelServer, line: str, headers: Mapping[str, str | None]) -> int:
    connection = await Connection.open(server, line, headers=headers)
    await connection.close()
    return connection.status


async def test_the_page_runs_no_script_but_its_own() -> None:
    async with serving() as server:
        page = await Connection.open(server, "GET /", headers={"Origin": None, "Authorization": None})
        assert page.status == HTTPStatus.OK
        policy = next(line for line in page.head.split("\r\n") if line.startswith("Content-Security-Policy"))
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        text = (await page.reader.read()).decode()
        assert "<script>" not in text
        assert "style=" not in text
        await page.close()


@pytest.mark.parametrize(
    ("line", "headers", "expected"),
    [
        pytest.param("GET /", {"Host": "panel.example:80"}, 403, id="a name that was bound to this machine"),
        pytest.param("GET /panel.js", {"Origin": "http://evil.example"}, 403, id="a page of another site"),
        pytest.param("POST /events", {"Origin": "null"}, 403, id="a page without an origin of its own"),
        pytest.param("POST /events", {"Origin": None}, 401, id="a program that is no page"),
        pytest.param("POST /events", {"Authorization": None}, 401, id="no token"),
        pytest.param("POST /events", {"Authorization": "Bearer guessed"}, 401, id="another token"),
        pytest.param("POST /send/x", {}, 410, id="a channel that is closed"),
        pytest.param("GET /../server.py", {}, 404, id="a file beside the page"),
        pytest.param("GET /events", {}, 404, id="the stream is never just fetched"),
        pytest.param("OPTIONS /events", {"Origin": "http://evil.example"}, 403, id="a preflight"),
        pytest.param("POST /events", {"Transfer-Encoding": "chunked"}, 400, id="a body of unknown length"),
    ],
)
async def test_strangers_get_nothing(line: str, headers: dict[str, str | None], expected: int) -> None:
    async with serving() as server:
        assert await status(server, line, headers) == expected


async def test_silent_strangers_keep_nobody_out() -> None:
    async with serving() as server:
        port = int(split_url(server)[0].rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        page = await Connection.open(server, "GET /", headers={"Origin": None, "Authorization": None})
        stream = await Connection.open(server, "POST /events")
        assert (page.status, stream.status) == (HTTPStatus.OK, HTTPStatus.OK)
        assert await silent[0][0].read() == b"", "the one that waited longest made way"
        for connection in (page, stream):
            await connection.close()
        for _, writer in silent:
            writer.close()


async def test_the_message_of_a_stranger_is_not_waited_for() -> None:
    async with serving() as server:
        host, _ = split_url(server)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
        head = f"POST /send/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: {MAX_BODY_BYTES}\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()


async def test_a_page_speaks_with_the_daemon_through_its_channel() -> None:
    async with serving() as server:
        stream = await Connection.open(server, "POST /events")
        greeting = (await stream.line())["panel"]
        assert (greeting["folder"], greeting["session"]) == (".", "last")
        sent = await Connection.open(server, f"POST /send/{greeting['channel']}", body='{"id": 1}\n{"id": 2}')
        assert sent.status == HTTPStatus.OK
        assert [await stream.line(), await stream.line()] == [{"id": 1}, {"id": 2}]
        await sent.close()
        await stream.close()


async def test_the_end_of_the_daemon_reaches_the_page_with_its_reason() -> None:
    async with serving() as server:
        stream = await Connection.open(server, "POST /events")
        channel = (await stream.line())["panel"]["channel"]
        await (await Connection.open(server, f"POST /send/{channel}", body='"die"')).close()
        assert await stream.line() == {"panel": {"over": "the reason of its end"}}
        assert await stream.reader.read() == b""
        await stream.close()


async def test_a_page_may_join_the_daemon_of_another_process() -> None:
    async with serving(sys.executable, "-c", "import sys; sys.exit(' '.join(sys.argv[1:]))") as server:
        for body, given in (("42", "--join 42"), ("", ""), ("42 --daemon", "")):
            stream = await Connection.open(server, "POST /events", body=body)
            assert "channel" in (await stream.line())["panel"]
            assert (await stream.line())["panel"]["over"] == (given or "the daemon has ended")
            await stream.close()


async def test_a_daemon_that_cannot_be_started_is_reported() -> None:
    async with serving("no-such-program-anywhere") as server:
        stream = await Connection.open(server, "POST /events")
        assert "cannot be started" in (await stream.line())["panel"]["over"]
        await stream.close()


async def test_it_listens_no_longer_than_a_page_is_open() -> None:
    async with serving(unused_s=0.2) as server:
        stream = await Connection.open(server, "POST /events")
        await stream.line()
        waiting = asyncio.ensure_future(server.wait_unused())
        done, _ = await asyncio.wait([waiting], timeout=0.4)
        assert not done
        await stream.close()
        await waiting


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b"x" * 2 * HEAD_BYTES, HTTPStatus.BAD_REQUEST, id="a head without an end"),
        pytest.param(b"GET /\r\n\r\n", HTTPStatus.BAD_REQUEST, id="no version"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HTTPStatus.BAD_REQUEST, id="two hosts"),
        pytest.param(b"GET /\xff HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST, id="not ASCII"),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            id="too long",
        ),
    ],
)
async def test_a_broken_request_is_refused(sent: bytes, expected: HTTPStatus) -> None:
    reader = asyncio.StreamReader(limit=HEAD_BYTES)
    reader.feed_data(sent)
    with pytest.raises(RequestError) as refused:
        await read_head(reader)
    assert refused.value.status == expected


def test_every_file_of_the_page_is_served_and_every_module_is_there() -> None:
    served = page_files()
    assert {path.rpartition(".")[2] for path in served if path != "/"} <= set(KINDS)
    for path, content in served.items():
        if path.endswith(".js"):
            wanted = re.findall(r'^import .*from "\./([\w.]+)";$', content.decode(), re.MULTILINE)
            assert {f"/{name}" for name in wanted} <= set(served), path


def test_the_page_never_parses_html() -> None:
    risky = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    assert [path for path, text in page_files().items() if risky.search(text.decode())] == []


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

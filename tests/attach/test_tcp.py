"""The loopback port: the token first, in time, and no address that others reach."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from sidecar.attach.listening import MAX_PENDING, TokenAuth, bind_loopback, write_tcp_file
from sidecar.attach.paths import AttachError
from sidecar.attach.streams import SocketStream, over_socket

TOKEN = "open-sesame"


class Visitor:
    """A connection at the desk, and the client's end of it."""

    def __init__(self, stream: SocketStream, client: socket.socket) -> None:
        self.stream = stream
        self.client = client

    @classmethod
    async def come(cls, data: bytes = b"") -> Visitor:
        ours, client = socket.socketpair()
        client.sendall(data)
        for end in (ours, client):
            end.setblocking(False)
        return cls(await over_socket(ours), client)

    async def received(self) -> bytes:
        self.stream.close()
        heard = await asyncio.get_running_loop().sock_recv(self.client, 4096)
        self.client.close()
        return heard


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"Authorization: Bearer open-sesame\n", id="as it should be"),
        pytest.param(b"authorization: bearer  open-sesame\r\n", id="as a header of other programs"),
    ],
)
async def test_the_right_token_opens_and_the_protocol_follows(line: bytes) -> None:
    visitor = await Visitor.come(line + b"Content-Length: 2")
    assert await TokenAuth(TOKEN).authenticate(visitor.stream)
    assert visitor.stream.early_bytes == b"Content-Length: 2"
    assert await visitor.received() == b""


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"Authorization: Bearer open-sesam\n", id="another token"),
        pytest.param(b"Authorization: Bearer \n", id="an empty token"),
        pytest.param(b"Authorization: Basic open-sesame\n", id="another scheme"),
        pytest.param(b"open-sesame\n", id="the bare token"),
        pytest.param(b"Content-Length: 2\r\n\r\n{}", id="the protocol at once"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="a page in a browser"),
        pytest.param(b"x" * 10_000, id="a line that does not end"),
    ],
)
async def test_anything_else_is_refused_with_a_message(data: bytes) -> None:
    visitor = await Visitor.come(data)
    assert not await TokenAuth(TOKEN).authenticate(visitor.stream)
    header, _, body = (await visitor.received()).partition(b"\r\n\r\n")
    assert header == b"Content-Length: %d" % len(body)
    assert (error(body)["code"], error(body)["data"]["kind"]) == (-32803, "authRequired")


async def test_a_client_of_the_other_face_is_refused_in_its_framing() -> None:
    visitor = await Visitor.come(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
    assert not await TokenAuth(TOKEN).authenticate(visitor.stream)
    body = await visitor.received()
    assert body.endswith(b"}\n")
    assert (error(body)["code"], error(body)["data"]["kind"]) == (-32000, "authRequired")


async def test_silence_is_refused_in_time() -> None:
    visitor = await Visitor.come()
    assert not await TokenAuth(TOKEN, auth_s=0.01).authenticate(visitor.stream)
    assert b"authRequired" in await visitor.received()


async def test_silent_strangers_make_way_for_a_client_with_the_token() -> None:
    desk, strangers = TokenAuth(TOKEN), [await Visitor.come() for _ in range(MAX_PENDING)]
    silent = [asyncio.ensure_future(desk.authenticate(each.stream)) for each in strangers]
    await asyncio.sleep(0)
    owner = await Visitor.come(b"Authorization: Bearer open-sesame\n")
    assert await desk.authenticate(owner.stream)
    assert not await silent[0], "it has waited longest"
    assert not any(each.done() for each in silent[1:])
    strangers[-1].client.sendall(b"Authorization: Bearer open-sesame\n")
    assert await silent[-1]
    for visitor in (owner, *strangers):
        visitor.client.close()
    await asyncio.gather(*silent)
    for visitor in (owner, *strangers):
        visitor.stream.close()


@pytest.mark.processes
@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_loopback_addresses_are_bound(address: str) -> None:
    with bind_loopback(address) as bound:
        assert bound.getsockname()[0] in ("127.0.0.1", "::1")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param("0.0.0.0:0", "only a loopback address", id="every address of the machine"),
        pytest.param("192.0.2.1:80", "only a loopback address", id="an address that others reach"),
        pytest.param("example.org:80", "host must be in numbers", id="a name"),
        pytest.param("127.0.0.1", "the form is HOST:PORT", id="no port"),
        pytest.param("127.0.0.1:http", "the form is HOST:PORT", id="a port by name"),
        pytest.param("127.0.0.1:65536", "the form is HOST:PORT", id="a port that is none"),
    ],
)
def test_other_addresses_are_refused(address: str, message: str) -> None:
    with pytest.raises(AttachError, match=message):
        bind_loopback(address)


@pytest.mark.processes
def test_a_port_that_is_taken_is_named() -> None:
    with bind_loopback("127.0.0.1:0") as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(AttachError, match=f"--listen 127.0.0.1:{port}: .*in use"):
            bind_loopback(f"127.0.0.1:{port}")


@pytest.mark.processes
def test_the_file_has_address_and_token_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "tcp.json"
    path.write_text("of a daemon that was killed")
    with bind_loopback("127.0.0.1:0") as bound:
        write_tcp_file(path, bound, TOKEN)
        port = bound.getsockname()[1]
    assert json.loads(path.read_text()) == {"host": "127.0.0.1", "port": port, "token": TOKEN}
    assert path.stat().st_mode & 0o777 == 0o600


def error(body: bytes) -> Any:
    return json.loads(body)["error"]

"""The stream of an attached client: a line of ours first, a farewell last, and a process it ends with."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator

import pytest

from sidecar.attach.shim import HELLO
from sidecar.attach.streams import SocketStream, over_socket, read_hello, wait_until_gone


class Taker:
    """A face that only keeps what it gets."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_over = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        self.data += data

    def on_writable(self) -> None: ...

    def on_end(self) -> None:
        self.is_over.set()


class Wire:
    """A stream and the client's end of it."""

    def __init__(self, stream: SocketStream, client: socket.socket) -> None:
        self.stream = stream
        self.client = client

    async def everything(self) -> bytes:
        """Return what the stream's face gets until the client hangs up."""
        taker = Taker()
        self.stream.open(taker)
        self.client.shutdown(socket.SHUT_WR)
        await taker.is_over.wait()
        return bytes(taker.data)

    async def received(self) -> bytes:
        """Return what the client gets until its connection ends."""
        loop, heard = asyncio.get_running_loop(), bytearray()
        while data := await loop.sock_recv(self.client, 4096):
            heard += data
        return bytes(heard)


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    ours, client = socket.socketpair()
    for end in (ours, client):
        end.setblocking(False)
    made = Wire(await over_socket(ours), client)
    yield made
    made.stream.close()
    client.close()
    await asyncio.sleep(0)


async def test_a_line_is_taken_whole_however_it_comes(wire: Wire) -> None:
    taking = asyncio.ensure_future(wire.stream.take_line(20))
    loop = asyncio.get_running_loop()
    for part in (b"fi", b"rst", b" line\nand the", b" rest"):
        await loop.sock_sendall(wire.client, part)
        await asyncio.sleep(0)
    assert await taking == b"first line\n"
    assert await wire.everything() == b"and the rest"


async def test_a_line_alone_leaves_nothing_and_later_input_is_seen_first(wire: Wire) -> None:
    wire.client.sendall(b"line\n")
    assert await wire.stream.take_line(20) == b"line\n"
    wire.client.sendall(b"{")
    assert await wire.stream.peek() == b"{"


@pytest.mark.parametrize(
    ("sent", "hangs_up"),
    [
        pytest.param(b"x" * 20, False, id="no end within the limit"),
        pytest.param(b"x" * 19 + b"\n", False, id="an end at the limit"),
        pytest.param(b"half", True, id="the input ends first"),
        pytest.param(b"", True, id="nothing comes"),
    ],
)
async def test_no_line_and_nothing_is_taken(wire: Wire, sent: bytes, hangs_up: bool) -> None:
    wire.client.sendall(sent)
    if hangs_up:
        wire.client.shutdown(socket.SHUT_WR)
    assert await wire.stream.take_line(19) is None
    assert wire.stream.early_bytes == sent


@pytest.mark.parametrize("first", [b"Content-Length: 2", b'{"jsonrpc"', b""])
async def test_a_client_of_a_face_is_greeted_by_leaving_it_alone(wire: Wire, first: bytes) -> None:
    wire.client.sendall(first)
    wire.client.shutdown(socket.SHUT_WR)
    await read_hello(wire.stream)
    assert (wire.stream.is_shim, wire.stream.early_bytes) == (False, first)


async def test_a_shim_gets_a_farewell(wire: Wire) -> None:
    wire.client.sendall(HELLO + b"{}")
    await read_hello(wire.stream)
    assert wire.stream.early_bytes == b"{}"
    wire.stream.exit_code = 1
    wire.stream.close()
    wire.stream.close()
    assert await wire.received() == b"\x001"


@pytest.mark.parametrize(("hello", "exit_code"), [(b"", 0), (HELLO, None)], ids=["no shim", "an end unasked"])
async def test_no_other_client_gets_a_farewell(wire: Wire, hello: bytes, exit_code: int | None) -> None:
    wire.client.sendall(hello + b"{}")
    await read_hello(wire.stream)
    wire.stream.exit_code = exit_code
    wire.stream.close()
    assert await wire.received() == b""


@pytest.mark.processes
async def test_the_connection_ends_with_the_process_it_is_for(wire: Wire) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=pipe)
    wire.stream.close_after_process(process.pid)
    process.kill()
    assert await wire.received() == b""
    assert wire.stream.is_lost
    await process.wait()


@pytest.mark.processes
async def test_the_process_of_a_shim_s_client_may_be_on_another_machine(wire: Wire) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    wire.client.sendall(HELLO)
    await read_hello(wire.stream)
    wire.stream.close_after_process(process.pid)
    await wait_until_gone(process.pid)  # as a watch would
    for _ in range(9):
        await asyncio.sleep(0)
    assert not wire.stream.is_lost


@pytest.mark.processes
async def test_a_process_that_is_gone_already_ends_it_at_once(wire: Wire) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    wire.stream.close_after_process(process.pid)
    assert await wire.received() == b""


@pytest.mark.parametrize(
    "pid", [None, 0, -1, 2**40, os.getpid()], ids=["none", "zero", "negative", "too high", "our own"]
)
async def test_no_process_and_a_living_one_end_nothing(wire: Wire, pid: int | None) -> None:
    wire.stream.close_after_process(pid)
    await asyncio.sleep(0)
    assert not wire.stream.is_lost


@pytest.mark.processes
async def test_waiting_for_a_process_returns_at_its_end() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=pipe)
    waiting = asyncio.ensure_future(wait_until_gone(process.pid))
    await asyncio.sleep(0)
    assert not waiting.done()
    process.kill()
    await waiting
    await process.wait()

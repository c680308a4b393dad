"""The adapters of the stream port over real pipes, sockets and files: one set of tests for all that can."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory_stream import MemoryStream
from sidecar.transport.stdio import ProtocolFds
from sidecar.transport.streams import ByteStream, ThreadStream, TransportStream, open_stdio

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drives POSIX descriptors")


class Recorder:
    """Keeps what a stream tells, and lets a test wait for it."""

    def __init__(self) -> None:
        self.data = b""
        self.n_ended = 0
        self.n_writable = 0
        self._news = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        self.data += data
        self._news.set()

    def on_writable(self) -> None:
        self.n_writable += 1
        self._news.set()

    def on_end(self) -> None:
        self.n_ended += 1
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._news.clear()
                await self._news.wait()


@dataclass
class Ends:
    """A stream and the client's two descriptors."""

    stream: ByteStream
    to_daemon: int
    from_daemon: int

    def hang_up(self) -> None:
        os.close(self.to_daemon)
        self.to_daemon = -1

    def stop_listening(self) -> None:
        os.close(self.from_daemon)
        self.from_daemon = -1

    def close(self) -> None:
        self.stream.close()
        for fd in {self.to_daemon, self.from_daemon} - {-1}:
            os.close(fd)


async def pipes(kind: str) -> Ends:
    daemon_reads, to_daemon = os.pipe()
    from_daemon, daemon_writes = os.pipe()
    fds = ProtocolFds(daemon_reads, daemon_writes)
    stream = ThreadStream(fds) if kind == "threads" else await TransportStream.over_pipes(fds)
    return Ends(stream, to_daemon, from_daemon)


async def sockets() -> Ends:
    """One socket pair for each way, as Node gives to its children."""
    daemon_in, client_out = socket.socketpair()
    daemon_out, client_in = socket.socketpair()
    stream = await TransportStream.over_pipes(ProtocolFds(daemon_in.detach(), daemon_out.detach()))
    return Ends(stream, client_out.detach(), client_in.detach())


@pytest.fixture(params=["pipes", "threads", "sockets"])
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    made = await (sockets() if request.param == "sockets" else pipes(request.param))
    yield made
    made.close()
    await asyncio.sleep(0)  # a closed transport lets go of its descriptor in the next turn of the loop


async def read_all(fd: int, n_bytes: int) -> bytes:
    """Read as the client, in a thread, so that the stream's loop goes on."""

    def read() -> bytes:
        data = b""
        while len(data) < n_bytes and (more := os.read(fd, 1 << 16)):
            data += more
        return data

    return await asyncio.to_thread(read)


async def test_bytes_pass_both_ways(ends: Ends) -> None:
    told = Recorder()
    ends.stream.open(told)
    os.write(ends.to_daemon, b"in \x00\xff\r\n")
    await told.until(lambda: told.data == b"in \x00\xff\r\n")
    ends.stream.write(b"out \x00\xff\r\n")
    assert await read_all(ends.from_daemon, 8) == b"out \x00\xff\r\n"


async def test_early_input_is_kept_for_the_receiver(ends: Ends) -> None:
    os.write(ends.to_daemon, b"{first")
    assert await ends.stream.peek() == b"{first"
    told = Recorder()
    ends.stream.open(told)
    os.write(ends.to_daemon, b" second")
    await told.until(lambda: told.data == b"{first second")


async def test_end_of_input_leaves_the_way_out_open(ends: Ends) -> None:
    told = Recorder()
    ends.stream.open(told)
    ends.hang_up()
    await told.until(lambda: told.n_ended == 1)
    assert not ends.stream.is_lost
    ends.stream.write(b"bye")
    assert await read_all(ends.from_daemon, 3) == b"bye"


async def test_end_of_input_before_anything_came_is_an_empty_peek(ends: Ends) -> None:
    ends.hang_up()
    assert await ends.stream.peek() == b""
    told = Recorder()
    ends.stream.open(told)
    assert told.n_ended == 1


async def test_no_room_until_a_slow_reader_has_everything(ends: Ends) -> None:
    told = Recorder()
    ends.stream.open(told)
    data = bytes(range(256)) * 8192
    had_room = ends.stream.has_room
    ends.stream.write(data)
    assert (had_room, ends.stream.has_room) == (True, False)
    assert await read_all(ends.from_daemon, len(data)) == data
    await told.until(lambda: told.n_writable == 1)
    assert ends.stream.has_room


async def test_a_reader_that_went_is_a_loss(ends: Ends) -> None:
    told = Recorder()
    ends.stream.open(told)
    ends.stop_listening()
    if ends.stream.has_room:
        ends.stream.write(b"to nobody")
    await told.until(lambda: ends.stream.is_lost)
    assert (told.n_ended, ends.stream.has_room) == (1, False)
    ends.stream.write(b"dropped")


async def test_paused_reading_takes_one_chunk_at_most(ends: Ends) -> None:
    told = Recorder()
    ends.stream.open(told)
    os.write(ends.to_daemon, b"a")
    await told.until(lambda: told.data == b"a")
    ends.stream.pause_reading()
    ends.stream.pause_reading()
    for chunk in (b"b", b"c"):
        os.write(ends.to_daemon, chunk)
        for _ in range(20):  # a reader that is not paused has taken the chunk by then
            await asyncio.to_thread(os.getpid)
    assert told.data in (b"a", b"ab")
    ends.stream.resume_reading()
    await told.until(lambda: told.data == b"abc")


async def test_after_close_it_is_lost(ends: Ends) -> None:
    told = Recorder()
    ends.stream.open(told)
    ends.stream.close()
    assert (ends.stream.is_lost, ends.stream.has_room, told.n_ended) == (True, False, 1)
    ends.stream.write(b"dropped")
    ends.stream.resume_reading()


async def test_a_regular_file_is_read_by_a_thread(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"from a file")
    fds = ProtocolFds(
        os.open(tmp_path / "in", os.O_RDONLY), os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    )
    stream = await open_stdio(fds)
    told = Recorder()
    stream.open(told)
    await told.until(lambda: told.n_ended == 1)
    stream.write(b"to a file")
    await told.until(lambda: stream.has_room)
    assert (type(stream), told.data) == (ThreadStream, b"from a file")
    assert (tmp_path / "out").read_bytes() == b"to a file"
    stream.close()
    os.close(fds.read_fd)
    os.close(fds.write_fd)


async def test_two_pipes_go_through_asyncio() -> None:
    daemon_reads, to_daemon = os.pipe()
    from_daemon, daemon_writes = os.pipe()
    ends = Ends(await open_stdio(ProtocolFds(daemon_reads, daemon_writes)), to_daemon, from_daemon)
    assert type(ends.stream) is TransportStream
    ends.close()
    await asyncio.sleep(0)


async def test_one_socket_for_both_ways_goes_through_threads() -> None:
    daemon, client = socket.socketpair()
    stream = await open_stdio(ProtocolFds(daemon.fileno(), daemon.fileno()))
    told = Recorder()
    stream.open(told)
    client.sendall(b"in")
    await told.until(lambda: told.data == b"in")
    stream.write(b"out")
    assert await read_all(client.fileno(), 3) == b"out"
    stream.close()
    client.close()
    daemon.close()


async def test_a_socket_server_makes_one_stream_per_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[TransportStream] = []

    def connected() -> TransportStream:
        streams.append(TransportStream())
        return streams[-1]

    monkeypatch.chdir(tmp_path)
    path = "s"  # the path of a socket must be short
    server = await asyncio.get_running_loop().create_unix_server(connected, path)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for n, client in enumerate(clients):
        client.connect(path)
        client.sendall(b"%d" % n)
    while len(streams) < 2:  # noqa: ASYNC110  # the server's accepting is the state
        await asyncio.sleep(0)
    assert sorted([await stream.peek() for stream in streams]) == [b"0", b"1"]
    for stream in streams:
        stream.open(Recorder())
        stream.write(b"hello")
    assert [await read_all(client.fileno(), 5) for client in clients] == [b"hello", b"hello"]
    for client in clients:
        client.close()
    for stream in streams:
        stream.close()
    server.close()
    await server.wait_closed()


async def test_memory_stream_keeps_the_contract() -> None:
    stream, told = MemoryStream(), Recorder()
    stream.send(b"early")
    assert await stream.peek() == b"early"
    stream.open(told)
    assert told.data == b"early"
    stream.stall()
    stream.write(b"x")
    assert not stream.has_room
    stream.read_on()
    assert (stream.has_room, bytes(stream.received_bytes), told.n_writable) == (True, b"x", 1)
    stream.hang_up()
    stream.vanish()
    assert (told.n_ended, stream.is_lost) == (2, True)

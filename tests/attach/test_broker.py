"""Clients are served each on its own, and the daemon leaves when nobody needs it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from sidecar.attach.broker import Broker
from sidecar.attach.listening import Listener, UnixListener, open_listener
from sidecar.attach.paths import DaemonPaths
from sidecar.attach.shim import HELLO
from sidecar.attach.streams import SocketStream
from sidecar.transport.lifetime import ExitReason, Lifetime, SupervisedConnection, supervise


class Echo:
    """A face that sends back what it gets; it ends with the client's input, or when it gets ``exit``."""

    def __init__(self, stream: SocketStream) -> None:
        self.told: list[str] = []
        self._stream = stream
        self._over = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        if data == b"exit":
            self._over.set()
        else:
            self._stream.write(data)

    def on_writable(self) -> None: ...

    def on_end(self) -> None:
        self._over.set()

    async def wait_ended(self) -> ExitReason:
        await self._over.wait()
        return ExitReason("over", 0)

    def announce_end(self, reason: str, in_s: float) -> None:
        self._stream.write(reason.encode())

    async def aclose(self, seconds: float) -> None:
        self._stream.close()


class Shared:
    """A broker of echoes behind the socket of a daemon."""

    def __init__(self, paths: DaemonPaths, idle_s: float) -> None:
        self.paths = paths
        self.is_busy = False
        self.faces: list[Echo] = []
        self.broker = Broker(self._open_face, lambda: self.is_busy, idle_s)
        self.door = open_listener(paths, self.broker)
        self.broker.add_listener(self.door)

    async def _open_face(self, stream: SocketStream) -> Echo:
        if await stream.peek() == b"fail":
            raise RuntimeError("this face cannot be opened")
        face = Echo(stream)
        stream.open(face)
        self.faces.append(face)
        return face

    async def client(self) -> Client:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, str(self.paths.socket))
        return Client(connection)


class Client:
    """One client of a :class:`Shared`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()

    async def echo(self, data: bytes) -> bytes:
        await self.send(data)
        return await self.received()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._connection, data)

    async def received(self) -> bytes:
        """Return what comes next, nothing at the end."""
        try:
            return await self._loop.sock_recv(self._connection, 100)
        except ConnectionResetError:  # the end, with something of ours unread
            return b""

    def leave(self) -> None:
        self._connection.close()


@pytest.fixture
async def share(paths: DaemonPaths) -> AsyncIterator[Callable[..., Shared]]:
    made: list[Shared] = []

    def share(idle_s: float = 1000.0) -> Shared:
        made.append(Shared(paths, idle_s))
        return made[-1]

    yield share
    for shared in made:
        shared.broker.announce_end("over", 0)
        await shared.broker.aclose(1)


async def test_each_client_has_a_face_of_its_own(share: Callable[..., Shared]) -> None:
    shared = share()
    one, two = await shared.client(), await shared.client()
    assert (await one.echo(b"1"), await two.echo(b"2"), await one.echo(b"3")) == (b"1", b"2", b"3")
    assert len(shared.faces) == 2
    one.leave()
    assert await two.echo(b"4") == b"4"
    two.leave()


async def test_a_face_that_fails_ends_its_own_connection_alone(
    share: Callable[..., Shared], caplog: pytest.LogCaptureFixture
) -> None:
    shared = share()
    good, bad = await shared.client(), await shared.client()
    assert await good.echo(b"1") == b"1"
    assert await bad.echo(b"fail") == b""
    assert await good.echo(b"2") == b"2"
    assert "serving a client failed with RuntimeError" in caplog.text
    for client in (good, bad):
        client.leave()


async def test_a_shim_gets_the_exit_code_of_its_client(share: Callable[..., Shared]) -> None:
    shim = await share().client()
    assert await shim.echo(HELLO + b"x") == b"x"
    assert await shim.echo(b"exit") == b"\x000"
    assert await shim.received() == b""
    shim.leave()


async def test_the_end_of_the_daemon_is_announced_and_no_shim_takes_it_for_its_own(
    share: Callable[..., Shared],
) -> None:
    shared, lifetime = share(), Lifetime()
    settled: list[str] = []

    async def settle() -> None:
        settled.append("settled")

    serving = asyncio.ensure_future(supervise(lifetime, shared.broker, settle))
    shim, other = await shared.client(), await shared.client()
    assert await shim.echo(HELLO + b"x") == b"x"
    assert await other.echo(b"y") == b"y"
    lifetime.stop("SIGTERM", 0)
    assert (await shim.received(), await other.received()) == (b"SIGTERM", b"SIGTERM")
    assert (await shim.received(), await other.received()) == (b"", b"")
    assert (await serving, settled) == (0, ["settled"])
    assert list(shared.paths.folder.iterdir()) == []
    for client in (shim, other):
        client.leave()


async def test_no_client_for_the_idle_time_is_the_end(share: Callable[..., Shared]) -> None:
    shared = share(0.01)
    assert await shared.broker.wait_ended() == ExitReason("no client for 0.01 s", 0)
    assert not shared.paths.socket.exists()


async def test_the_first_client_may_take_longer_to_come() -> None:
    """On a busy machine it is slower than a short idle time; it was told that the daemon is there."""

    async def nobody(_: SocketStream) -> SupervisedConnection:
        raise AssertionError

    broker = Broker(nobody, lambda: False, 0.001, first_s=0.02)
    began = asyncio.get_running_loop().time()
    await broker.wait_ended()
    assert asyncio.get_running_loop().time() - began >= 0.02


async def test_a_client_keeps_the_daemon_and_its_leaving_counts_anew(share: Callable[..., Shared]) -> None:
    shared = share(0.01)
    client = await shared.client()
    assert await client.echo(b"x") == b"x"
    ended = asyncio.ensure_future(shared.broker.wait_ended())
    done, _ = await asyncio.wait({ended}, timeout=0.05)
    assert not done
    client.leave()
    assert (await ended).code == 0


async def test_work_keeps_the_daemon_without_any_client(share: Callable[..., Shared]) -> None:
    shared = share(0.01)
    shared.is_busy = True
    ended = asyncio.ensure_future(shared.broker.wait_ended())
    done, _ = await asyncio.wait({ended}, timeout=0.05)
    assert not done
    assert shared.paths.socket.exists()
    shared.is_busy = False
    assert (await ended).code == 0


async def test_who_comes_at_the_last_moment_is_served(
    share: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client connects while the daemon has decided to look whether it may leave."""
    shared = share(0.01)
    hide, late = UnixListener.hide, asyncio.get_running_loop().create_future()

    def hide_after_a_visitor(door: UnixListener) -> None:
        if not late.done():
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(shared.paths.socket))
            connection.setblocking(False)
            late.set_result(Client(connection))
        hide(door)

    monkeypatch.setattr(UnixListener, "hide", hide_after_a_visitor)
    ended = asyncio.ensure_future(shared.broker.wait_ended())
    client: Client = await late
    assert await client.echo(b"am I late?") == b"am I late?"
    assert shared.paths.socket.exists()
    assert not ended.done()
    client.leave()
    await ended


@pytest.mark.processes
async def test_a_crowd_at_one_door_keeps_all_doors_open(
    paths: DaemonPaths, share: Callable[..., Shared]
) -> None:
    """A door that was hidden is shown again when somebody waits at another."""
    shared = share(0.01)
    bound = socket.create_server(("127.0.0.1", 0))
    waiting = socket.create_connection(bound.getsockname())
    port = Listener(bound, shared.broker.serve)
    shared.broker.add_listener(port)
    ended = asyncio.ensure_future(shared.broker.wait_ended())
    waiting.setblocking(False)
    assert await Client(waiting).echo(b"x") == b"x"
    client = await shared.client()
    assert await client.echo(b"y") == b"y"
    assert not ended.done()
    for end in (client, Client(waiting)):
        end.leave()
    await ended

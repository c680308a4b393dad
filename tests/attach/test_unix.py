"""The socket: taken over when stale, closed to other users, and trusted only where this user listens."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sidecar.attach.connecting import connect, is_answering, peer_uid
from sidecar.attach.listening import UnixListener
from sidecar.attach.paths import AttachError, DaemonPaths

STRANGER = os.geteuid() + 1


def stranger(_connection: socket.socket) -> int:
    return STRANGER


class Door:
    """A listener, and who came in by it."""

    def __init__(self, path: Path, uid_of: Callable[[socket.socket], int]) -> None:
        self.came: asyncio.Queue[socket.socket] = asyncio.Queue()
        self.listener = UnixListener(path, self.came.put_nowait, uid_of)


@pytest.fixture
async def open_door(paths: DaemonPaths) -> AsyncIterator[Callable[..., Door]]:
    doors: list[Door] = []

    def open_door(uid_of: Callable[[socket.socket], int] = peer_uid) -> Door:
        doors.append(Door(paths.socket, uid_of))
        return doors[-1]

    yield open_door
    for door in doors:
        door.listener.close()
        while not door.came.empty():
            door.came.get_nowait().close()
    await asyncio.sleep(0)


async def test_processes_of_this_user_are_admitted(
    paths: DaemonPaths, open_door: Callable[..., Door]
) -> None:
    assert not is_answering(paths)
    door = open_door()
    assert is_answering(paths)
    (await door.came.get()).close()
    assert paths.socket.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["daemon.sock", "daemon.leaving"])
async def test_a_stale_socket_is_taken_over(
    paths: DaemonPaths, open_door: Callable[..., Door], name: str
) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(paths.folder / name))
    assert not is_answering(paths)
    door = open_door()
    assert is_answering(paths)
    (await door.came.get()).close()


async def test_another_user_is_let_go_at_once_and_named(
    paths: DaemonPaths, open_door: Callable[..., Door], caplog: pytest.LogCaptureFixture
) -> None:
    door = open_door(stranger)
    client = connect(paths)
    assert client is not None
    client.setblocking(False)
    assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    client.close()
    assert door.came.empty()
    assert f"a process of user {STRANGER} was refused" in caplog.text


async def test_a_client_of_an_unknown_user_is_closed(
    paths: DaemonPaths, open_door: Callable[..., Door], caplog: pytest.LogCaptureFixture
) -> None:
    def nobody_knows(_connection: socket.socket) -> int:
        raise OSError("the kernel does not say")

    door = open_door(nobody_knows)
    client = connect(paths)
    assert client is not None
    client.setblocking(False)
    assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    client.close()
    assert door.came.empty()
    assert "OSError" in caplog.text


async def test_a_listener_of_another_user_is_not_trusted(
    paths: DaemonPaths, open_door: Callable[..., Door]
) -> None:
    door = open_door()
    with pytest.raises(AttachError, match=f"user {STRANGER} is listening at"):
        connect(paths, stranger)
    (await door.came.get()).close()


async def test_a_door_leaves_no_file_and_closes_once(
    paths: DaemonPaths, open_door: Callable[..., Door]
) -> None:
    door = open_door()
    door.listener.close()
    paths.socket.write_text("of the next daemon")
    door.listener.close()
    assert paths.socket.read_text() == "of the next daemon"


async def test_a_socket_that_was_removed_is_no_fault(
    paths: DaemonPaths, open_door: Callable[..., Door]
) -> None:
    door = open_door()
    paths.socket.unlink()
    door.listener.hide()
    assert not door.listener.has_waiting
    door.listener.show()
    door.listener.close()

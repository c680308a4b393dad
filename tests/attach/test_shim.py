"""The shim passes bytes both ways, ends as the daemon says, and knows a daemon that is gone."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sidecar.attach.connecting import peer_uid
from sidecar.attach.shim import HELLO, DaemonLost, copy_to_daemon, pump


class Shimmed:
    """A shim in a thread: *daemon* is the daemon's end, *client_in* and *client_out* are the client's."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.daemon, ours = socket.socketpair()
        self.daemon.settimeout(20)
        self._ours = ours
        read_fd, self.client_in = os.pipe()
        self.client_out, write_fd = os.pipe()
        self._fds = {read_fd, write_fd, self.client_in, self.client_out}
        self.code: Future[int] = pool.submit(pump, ours, read_fd, write_fd)
        assert self.received(len(HELLO)) == HELLO

    def received(self, n_bytes: int) -> bytes:
        """Return what the daemon has heard next."""
        return self.daemon.recv(n_bytes, socket.MSG_WAITALL)

    def hang_up(self) -> None:
        """Close the client's end of the input."""
        self.drop(self.client_in)

    def drop(self, fd: int) -> None:
        os.close(fd)
        self._fds.discard(fd)

    def close(self) -> None:
        self.daemon.close()
        self.code.exception()
        self._ours.close()
        for fd in tuple(self._fds):
            self.drop(fd)


@pytest.fixture
def shimmed() -> Iterator[Shimmed]:
    with ThreadPoolExecutor(1) as pool:
        made = Shimmed(pool)
        yield made
        made.close()


def test_bytes_pass_both_ways_unread(shimmed: Shimmed) -> None:
    os.write(shimmed.client_in, b"\x00any\xffthing")
    assert shimmed.received(10) == b"\x00any\xffthing"
    shimmed.daemon.sendall(b"Content-Length: 2\r\n\r\n{}")
    assert os.read(shimmed.client_out, 100) == b"Content-Length: 2\r\n\r\n{}"


def test_more_than_any_buffer_holds_passes_whole(shimmed: Shimmed) -> None:
    flood = os.urandom(1_000_000).replace(b"\0", b"1") * 3
    writer = threading.Thread(target=shimmed.daemon.sendall, args=(flood,))
    writer.start()
    got = bytearray()
    while len(got) < len(flood):
        got += os.read(shimmed.client_out, 1 << 20)
    writer.join()
    assert got == flood


@pytest.mark.parametrize("code", [0, 1])
def test_the_farewell_is_the_exit_code_and_never_the_client_s(shimmed: Shimmed, code: int) -> None:
    shimmed.daemon.sendall(b"last\0%d" % code)
    assert shimmed.code.result(20) == code
    assert os.read(shimmed.client_out, 100) == b"last"


def test_a_farewell_in_two_parts(shimmed: Shimmed) -> None:
    shimmed.daemon.sendall(b"last\0")
    assert os.read(shimmed.client_out, 100) == b"last"
    shimmed.daemon.sendall(b"0")
    assert shimmed.code.result(20) == 0


@pytest.mark.parametrize("last", [b"", b"half a mess", b"half a farewell\0"])
def test_a_daemon_without_a_farewell_is_gone(shimmed: Shimmed, last: bytes) -> None:
    shimmed.daemon.sendall(last)
    shimmed.daemon.close()
    assert isinstance(shimmed.code.exception(20), DaemonLost)


def test_the_end_of_the_input_is_passed_on_and_answers_still_come(shimmed: Shimmed) -> None:
    os.write(shimmed.client_in, b"last words")
    shimmed.hang_up()
    assert shimmed.received(100) == b"last words"
    shimmed.daemon.sendall(b"an answer\0" + b"1")
    assert os.read(shimmed.client_out, 100) == b"an answer"
    assert shimmed.code.result(20) == 1


def test_a_client_that_reads_no_more_ends_the_shim(shimmed: Shimmed) -> None:
    shimmed.drop(shimmed.client_out)
    shimmed.daemon.sendall(b"nobody reads this")
    assert shimmed.code.result(20) == 1


def test_the_kernel_knows_the_user_at_the_other_end(shimmed: Shimmed) -> None:
    assert peer_uid(shimmed.daemon) == os.geteuid()


def test_an_input_that_cannot_be_read_has_ended() -> None:
    daemon, ours = socket.socketpair()
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with daemon, ours:
        copy_to_daemon(read_fd, ours)
        assert daemon.recv(1) == b""
    os.close(write_fd)

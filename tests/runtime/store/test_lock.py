"""One writer a session; a dead one is no writer."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.runtime.store import SessionGraph, SessionLockedError, SessionStore, StoreUnavailable
from turns import user


def test_a_second_writer_is_refused_with_the_pid(store: SessionStore) -> None:
    with store.lock("s"), pytest.raises(SessionLockedError) as caught:
        store.lock("s")
    assert (caught.value.kind, caught.value.retryable) == ("busy", True)
    assert caught.value.details == {"sid": "s", "pid": os.getpid()}


def test_a_released_lock_can_be_taken_again(store: SessionStore) -> None:
    lock = store.lock("s")
    lock.release()
    lock.release()
    with store.lock("s"), store.lock("t"):
        pass


def test_a_lock_file_that_nobody_holds_means_nothing(store: SessionStore, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "s.lock").write_text("99999999")
    with store.lock("s"):
        assert (tmp_path / "store" / "s.lock").read_text() == str(os.getpid())


def test_a_full_disk_lets_a_session_be_locked(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sidecar._internal.file_lock.os.write", write)
        lock = store.lock("s")
    with lock, pytest.raises(SessionLockedError, match="in use by another process"):
        store.lock("s")


async def test_readers_need_no_lock(store: SessionStore) -> None:
    with store.lock("s"):
        await store.append_node("s", SessionGraph("s").append(user("a")))
        assert (await store.load_session("s")).leaf is not None
        assert (await store.summary("s")) is not None


def test_a_store_that_cannot_hold_a_lock_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable):
        SessionStore(tmp_path / "file").lock("s")


HOLD = (
    "import sys\n"
    "from sidecar.runtime.store import SessionStore\n"
    "lock = SessionStore(sys.argv[1]).lock('s')\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_another_process_is_named_and_its_lock_ends_with_its_life(
    store: SessionStore, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "store")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(SessionLockedError) as caught:
            store.lock("s")
        assert caught.value.pid == child.pid
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert (tmp_path / "store" / "s.lock").exists()
        with store.lock("s"):
            pass

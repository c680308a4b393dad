"""One holder at a time, and none that is dead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sidecar._internal.file_lock import FileLock

HOLDER = """
import sys
from pathlib import Path
from sidecar._internal.file_lock import FileLock

lock = FileLock(Path(sys.argv[1]))
lock.take()
lock.write_holder()
print("taken", flush=True)
sys.stdin.read()
"""


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert (first.try_take(), second.try_take()) == (True, False)
    first.release()
    second.take()
    third = FileLock(tmp_path / "lock")
    assert not third.try_take()
    for lock in (second, third):
        lock.release()


@pytest.mark.processes
def test_a_holder_that_is_killed_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        lock = FileLock(path)
        assert (lock.try_take(), lock.read_holder()) == (False, holder.pid)
        holder.kill()
        holder.wait()
        assert lock.try_take()
        lock.release()


def test_a_new_lock_has_no_holder(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.read_holder() is None
    lock.release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"):
        FileLock(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()

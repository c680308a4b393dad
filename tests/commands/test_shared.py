"""The lock of the shared daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.commands import shared


@pytest.fixture
def held(tmp_path: Path) -> Iterator[DaemonPaths]:
    """The files of a daemon that holds its lock."""
    paths = DaemonPaths(tmp_path)
    paths.make()
    lock = FileLock(paths.lock)
    assert lock.try_take()
    lock.write_holder()
    yield paths
    lock.release()


def test_a_daemon_that_answers_keeps_its_lock(held: DaemonPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "is_answering", lambda _: True)
    assert not shared.take_lock(held)


def test_a_holder_that_does_not_answer_is_named(held: DaemonPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_LEAVING_S", -1.0)
    with pytest.raises(AttachError, match=f"process {os.getpid()}, which holds"):
        shared.take_lock(held)

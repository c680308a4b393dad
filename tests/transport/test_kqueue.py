"""Waiting for the end of a process, as macOS tells it; the kernel is played."""

from __future__ import annotations

import errno
import select
from collections.abc import Sequence

import pytest

from sidecar.transport.kqueue import kernel, wait_for_exit


class Played:
    """A kernel: *fails* is what each step answers with, and *asked* what was asked of it."""

    KQ_FILTER_PROC, KQ_EV_ADD, KQ_EV_ONESHOT, KQ_NOTE_EXIT = -5, 1, 16, 1 << 31

    def __init__(self, **fails: int) -> None:
        self._fails = fails
        self.asked: list[object] = []

    def kqueue(self) -> Played:
        self._step("queue")
        return self

    def kevent(self, ident: int, *, filter: int, flags: int, fflags: int) -> object:
        return (ident, filter, flags, fflags)

    def control(self, changes: Sequence[object] | None, max_events: int, /) -> Sequence[object]:
        self.asked.append((changes, max_events))
        self._step("watch" if changes else "wait")
        return []

    def close(self) -> None:
        self.asked.append("closed")

    def _step(self, name: str) -> None:
        if name in self._fails:
            raise OSError(self._fails[name], name)


WATCH = ([(7, -5, 17, 1 << 31)], 0)
WAIT = (None, 1)


@pytest.mark.parametrize(
    ("played", "is_it", "ended", "asked"),
    [
        pytest.param(Played(), True, True, [WATCH, WAIT, "closed"], id="watched, then waited for"),
        pytest.param(Played(), False, True, [WATCH, "closed"], id="another bears the number"),
        pytest.param(Played(watch=errno.ESRCH), True, True, [WATCH, "closed"], id="gone already"),
        pytest.param(Played(watch=errno.EACCES), True, False, [WATCH, "closed"], id="not ours to watch"),
        pytest.param(Played(queue=errno.EMFILE), True, False, [], id="no descriptor left"),
    ],
)
def test_wait_for_exit(played: Played, is_it: bool, ended: bool, asked: list[object]) -> None:
    assert wait_for_exit(7, played, lambda: is_it) is ended
    assert played.asked == asked


def test_a_system_without_kqueue_says_so() -> None:
    assert (kernel() is not None) == hasattr(select, "kqueue")

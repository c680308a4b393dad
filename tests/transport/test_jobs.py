"""The job object of Windows that ends children with the daemon; the system is played."""

from __future__ import annotations

import ctypes
import sys

import pytest

from sidecar.transport.jobs import ExtendedLimits, end_children_with_us, load_kernel32

JOB, US = 11, -1


class Played:
    """A kernel32 in which *fails* answers 0."""

    def __init__(self, fails: str = "") -> None:
        self._fails = fails
        self.asked: list[tuple[object, ...]] = []

    def CreateJobObjectW(self, security: None, name: None, /) -> int:
        return self._answer("create", JOB)

    def SetInformationJobObject(self, job: int, kind: int, limits: object, n_bytes: int, /) -> int:
        found = ctypes.cast(limits, ctypes.POINTER(ExtendedLimits)).contents  # type: ignore[arg-type]  # a reference
        return self._answer("limit", 1, job, kind, found.flags, n_bytes)

    def AssignProcessToJobObject(self, job: int, process: int, /) -> int:
        return self._answer("assign", 1, job, process)

    def GetCurrentProcess(self) -> int:
        return US

    def CloseHandle(self, handle: int, /) -> int:
        return self._answer("close", 1, handle)

    def _answer(self, name: str, well: int, *said: object) -> int:
        self.asked.append((name, *said))
        return 0 if name == self._fails else well


CREATE = ("create",)
LIMIT = ("limit", JOB, 9, 0x2800, ctypes.sizeof(ExtendedLimits))
ASSIGN = ("assign", JOB, US)
CLOSE = ("close", JOB)


@pytest.mark.parametrize(
    ("fails", "asked"),
    [
        pytest.param("", [CREATE, LIMIT, ASSIGN], id="the handle stays open as long as we live"),
        pytest.param("create", [CREATE], id="no job"),
        pytest.param("limit", [CREATE, LIMIT, CLOSE], id="no limits: nobody may be put into it"),
        pytest.param("assign", [CREATE, LIMIT, ASSIGN, CLOSE], id="we are in a job that has no others"),
    ],
)
def test_end_children_with_us(fails: str, asked: list[tuple[object, ...]]) -> None:
    played = Played(fails)
    assert end_children_with_us(played) is (not fails)
    assert played.asked == asked


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the size on 64 bits")
def test_the_limits_are_as_large_as_the_system_s() -> None:
    assert ctypes.sizeof(ExtendedLimits) == 144


def test_only_windows_has_it() -> None:
    assert (load_kernel32() is not None) == (sys.platform == "win32")

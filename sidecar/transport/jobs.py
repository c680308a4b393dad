"""On Windows, what the daemon starts ends with it, however it ends: the job object that all of them are in.

POSIX systems have process groups for that (:mod:`sidecar.capabilities.processes`). The system is an argument,
so that a test can stand in for it.
"""

from __future__ import annotations

import ctypes
from typing import Final, Protocol

__all__ = ["Kernel32", "end_children_with_us", "kernel32"]

_EXTENDED_LIMITS: Final = 9
_KILL_ON_JOB_CLOSE: Final = 0x2000
_BREAKAWAY_OK: Final = 0x0800


class _Limits(ctypes.Structure):
    """``JOBOBJECT_EXTENDED_LIMIT_INFORMATION``, of which only the flags are of use here."""

    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("least_working_set", ctypes.c_size_t),
        ("most_working_set", ctypes.c_size_t),
        ("most_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
        ("io", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class Kernel32(Protocol):
    """The part of ``kernel32.dll`` that is needed here; each answers 0 when it fails."""

    def CreateJobObjectW(self, security: None, name: None, /) -> int:
        """Return the handle of a new job."""
        ...

    def SetInformationJobObject(self, job: int, kind: int, limits: object, n_bytes: int, /) -> int:
        """Set the limits of a job."""
        ...

    def AssignProcessToJobObject(self, job: int, process: int, /) -> int:
        """Put a process into a job; whatever it starts from then on is in it, too."""
        ...

    def GetCurrentProcess(self) -> int:
        """Return the handle that stands for the calling process."""
        ...

    def CloseHandle(self, handle: int, /) -> int:
        """Let go of a handle."""
        ...


def kernel32() -> Kernel32 | None:
    """Return this system's, None where it is not Windows."""
    load = getattr(ctypes, "WinDLL", None)
    if load is None:
        return None
    library: Kernel32 = load("kernel32", use_last_error=True)
    for name in ("CreateJobObjectW", "GetCurrentProcess"):
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("SetInformationJobObject", "AssignProcessToJobObject", "CloseHandle"):
        getattr(library, name).argtypes = _ARGUMENTS[name]
    return library


_ARGUMENTS: Final = {
    "SetInformationJobObject": (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32),
    "AssignProcessToJobObject": (ctypes.c_void_p, ctypes.c_void_p),
    "CloseHandle": (ctypes.c_void_p,),
}
"""Without these, handles would be cut to 32 bits."""


def end_children_with_us(system: Kernel32) -> bool:
    """Put this process into a job that ends with it; False when the system would not.

    The job's one handle is never closed by us: the system closes it when this process is gone, and with that
    ends whoever else is in the job. Children that ask to leave the job may.
    """
    job = system.CreateJobObjectW(None, None)
    if not job:
        return False
    limits = _Limits(flags=_KILL_ON_JOB_CLOSE | _BREAKAWAY_OK)
    size = ctypes.sizeof(limits)
    if system.SetInformationJobObject(
        job, _EXTENDED_LIMITS, ctypes.byref(limits), size
    ) and system.AssignProcessToJobObject(job, system.GetCurrentProcess()):
        return True
    system.CloseHandle(job)
    return False

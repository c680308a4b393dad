"""Child processes end with the daemon on Windows, by the job object that holds them all.

POSIX systems have process groups for that (:mod:`sidecar.capabilities.processes`), and psutil has no jobs.
This has never run on Windows: its tests call it with a stand-in for the system library.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Final, Protocol

_EXTENDED_LIMITS: Final = 9
_KILL_ON_JOB_CLOSE: Final = 0x2000
_BREAKAWAY_OK: Final = 0x0800


class ExtendedLimits(ctypes.Structure):
    """``JOBOBJECT_EXTENDED_LIMIT_INFORMATION``; only the flags are set here."""

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
    """The calls of ``kernel32.dll`` that are needed here; each returns 0 when it fails."""

    def CreateJobObjectW(self, security: None, name: None, /) -> int: ...
    def SetInformationJobObject(self, job: int, kind: int, limits: object, n_bytes: int, /) -> int: ...
    def AssignProcessToJobObject(self, job: int, process: int, /) -> int: ...
    def GetCurrentProcess(self) -> int: ...
    def CloseHandle(self, handle: int, /) -> int: ...


def load_kernel32() -> Kernel32 | None:
    """Return the system library, or None where the system is not Windows."""
    load = getattr(ctypes, "WinDLL", None)
    if load is None:
        return None
    library: Kernel32 = load("kernel32", use_last_error=True)
    handle = ctypes.c_void_p  # without declared types, handles would be cut to 32 bits
    for name, result, arguments in (
        ("CreateJobObjectW", handle, (handle, handle)),
        ("GetCurrentProcess", handle, ()),
        ("SetInformationJobObject", ctypes.c_int, (handle, ctypes.c_int, handle, ctypes.c_uint32)),
        ("AssignProcessToJobObject", ctypes.c_int, (handle, handle)),
        ("CloseHandle", ctypes.c_int, (handle,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def hold_children() -> None:
    """Put this process into a job that ends with it, or log a warning."""
    system = load_kernel32()
    if system is None or not end_children_with_us(system):
        message = "Windows gave no job object: tool processes may outlive a daemon that is killed"
        logging.getLogger("sidecar.transport").warning(message)


def end_children_with_us(system: Kernel32) -> bool:
    """Put this process into a job that ends with it; False when the system refuses.

    The only handle of the job is never closed by us: the system closes it when this process is gone, and that
    ends every other process in the job. Children that ask to leave the job may.
    """
    job = system.CreateJobObjectW(None, None)
    if not job:
        return False
    limits = ExtendedLimits(flags=_KILL_ON_JOB_CLOSE | _BREAKAWAY_OK)
    size = ctypes.sizeof(limits)
    if system.SetInformationJobObject(
        job, _EXTENDED_LIMITS, ctypes.byref(limits), size
    ) and system.AssignProcessToJobObject(job, system.GetCurrentProcess()):
        return True
    system.CloseHandle(job)
    return False

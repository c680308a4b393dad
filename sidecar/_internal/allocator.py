"""The allocator of the C library: freed memory goes back to the system.

The problem: glibc gives each thread a heap of its own, and puts larger and larger blocks into the heaps
instead of mapping them. Worker threads read, encode and pack texts of any size. So each heap comes to keep
its largest load, with a few small blocks between the holes. A daemon at rest held 100 MB of free memory after
ten minutes of work, and more after twenty, with the same live objects.

One heap returns its free end, and mapped blocks are returned as they are freed. The size then stays the same.
Python holds its lock while it allocates, so that threads hardly wait for each other. Only for glibc; other C
libraries return memory by themselves.
"""

from __future__ import annotations

import sys
from typing import Final

_SETTINGS: Final = (
    (-8, 1),  # M_ARENA_MAX: heaps
    (-3, 128 * 1024),  # M_MMAP_THRESHOLD: bytes of a block that is mapped by itself
    (-1, 1024 * 1024),  # M_TRIM_THRESHOLD: free bytes at the end of the heap that are kept
)


def limit_kept_memory() -> None:
    """Let this process return the memory it frees; without glibc nothing happens."""
    if sys.platform.startswith("linux"):
        import ctypes

        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):
            for setting in _SETTINGS:
                library.mallopt(*setting)

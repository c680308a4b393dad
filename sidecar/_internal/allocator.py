"""The allocator of the C library: freed memory goes back to the system.

The problem: glibc gives each thread a heap of its own, and puts larger and larger blocks into the heaps
instead of mapping them. Worker threads read, encode and pack texts of any size. So each heap comes to keep
its largest load, with a few small blocks between the holes. A daemon at rest held 100 MB of free memory after
ten minutes of work, and more after twenty, with the same live objects.

One heap returns its free end, and mapped blocks are returned as they are freed. The size then stays the same.
Python holds its lock while it allocates, so that threads hardly wait for each other. Only for glibc; other C
libraries return memory by themselves.

A closed session is the largest thing that is freed. It lets go of its conversation by itself, which leaves
scattered free blocks that glibc keeps until it is told to trim. Its other parts refer to each other, so that
Python collects them some time later. :class:`FreedMemory` does both after a moment, and while no turn runs.

A long conversation is a million objects that stay, and each full collection would walk through them again
while everything waits, other threads too: with 100,000 messages, a third to three quarters of a second for
each load, undo or compaction. So after a collection that took long, :class:`BriefCollections` excludes its
survivors from the later ones, and nothing of that waits for more than a twentieth of a second. Such an object
is freed as ever when nothing refers to it any more; only parts that refer to each other stay. For those all
are looked at again when memory is returned: at once where they are few, else in a quiet minute.

Modules stay too: while a daemon loads its own, nothing is collected but once in a hundred thousand objects,
and all that it has loaded is excluded then. It saves 7 % of the processor time to a first session.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Mapping
from time import process_time, thread_time
from typing import Final

_SETTINGS: Final = (
    (-8, 1),  # M_ARENA_MAX: heaps
    (-3, 128 * 1024),  # M_MMAP_THRESHOLD: bytes of a block that is mapped by itself
    (-1, 1024 * 1024),  # M_TRIM_THRESHOLD: free bytes at the end of the heap that are kept
)


_WHILE_LOADING: Final = 100_000
"""So many new objects begin a collection while modules are loaded."""

_AFTER_LOADING: Final = gc.get_threshold()[0]

_DELAY_S: Final = 1.0
"""How long sessions that are closed one after another are waited for."""

_MOST_BLOCKS: Final = 750_000
"""With so many blocks in use all objects are looked at again at once, in less than a tenth of a second.

About 300,000 are excluded then, half of the blocks of conversations and a quarter of those of the modules. To
count the objects is a walk through them, which holds up everything; the number of blocks is known.
"""

_MOST_WAITING: Final = 550_000
"""With so many blocks they may wait for a moment of rest: in constant use there is none."""

_QUIET_S: Final = 60.0
_QUIET_WORK_S: Final = 1.0
"""The length of a quiet time, and the most processor time of this process in it."""


def limit_kept_memory() -> None:
    """Let this process return the memory it frees; without glibc nothing happens."""
    for setting in _SETTINGS:
        _call_library("mallopt", *setting)


class BriefCollections:
    """A callback of the collector: excludes the survivors of one that took more than *most_s* seconds.

    Seconds of processor time: on a busy machine a small collection takes long, too, and the parts of all that
    went on at that moment would stay.
    """

    def __init__(self, most_s: float = 0.01) -> None:
        self._most_s = most_s
        self._began = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Take note of a collection that starts or stops."""
        if phase == "start":
            self._began = thread_time()
        elif info["generation"] == 2 and thread_time() - self._began > self._most_s:
            gc.freeze()


def keep_collections_brief() -> None:
    """Let no collection of this process walk through objects that an earlier long one has left.

    Collections are rare until :func:`exclude_loaded_modules`.
    """
    gc.callbacks.append(BriefCollections())
    gc.set_threshold(_WHILE_LOADING)


def exclude_loaded_modules() -> None:
    """Let no later collection walk through the loaded modules, and begin one as often as ever."""
    gc.freeze()
    gc.set_threshold(_AFTER_LOADING)


def return_freed_memory(most_blocks: int = sys.maxsize) -> None:
    """Collect all that nothing refers to any more, and return its memory to the system.

    Excluded objects are looked at as well where at most *most_blocks* of memory are in use.
    """
    if sys.getallocatedblocks() <= most_blocks and gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
        gc.freeze()
    else:
        gc.collect()
    _call_library("malloc_trim", 0)


class FreedMemory:
    """Returns freed memory to the system soon after it was announced, in a thread.

    Attributes:
        is_at_rest: whether nothing is at work that would have to wait.
    """

    def __init__(self) -> None:
        self.is_at_rest: Callable[[], bool] = lambda: True
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_timer: asyncio.TimerHandle | None = None

    def return_soon(self) -> None:
        """Return all that is free in a while; called again meanwhile, it does nothing more."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY_S, self.return_at_rest)

    def return_at_rest(self) -> None:
        """Return all that is free now, or in a while if something is at work."""
        self._timer = None
        n_blocks = sys.getallocatedblocks()
        if not self.is_at_rest() and not _MOST_WAITING < n_blocks <= _MOST_BLOCKS:
            self.return_soon()
            return
        asyncio.get_running_loop().run_in_executor(None, return_freed_memory, _MOST_BLOCKS)
        if n_blocks > _MOST_BLOCKS:
            self.return_in_quiet()

    def return_in_quiet(self) -> None:
        """Return all that is free, at the cost of a look at every object, after a minute without work."""
        loop, worked_s = asyncio.get_running_loop(), process_time()

        def return_if_quiet() -> None:
            self._quiet_timer = None
            if self.is_at_rest() and process_time() - worked_s < _QUIET_WORK_S:
                loop.run_in_executor(None, return_freed_memory)
            else:
                self.return_in_quiet()

        if self._quiet_timer is None:
            self._quiet_timer = loop.call_later(_QUIET_S, return_if_quiet)


def _call_library(name: str, *arguments: int) -> None:
    """Call a function of the C library, where it has one of that name."""
    if sys.platform.startswith("linux"):
        import ctypes

        function = getattr(ctypes.CDLL(None), name, None)
        if function is not None:
            function(*arguments)

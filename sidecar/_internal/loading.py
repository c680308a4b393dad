"""Loads modules as fast as they can be loaded, for a process that somebody waits for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loading"]


@contextmanager
def loading() -> Iterator[None]:
    """Import in this block: nothing of it is looked at for garbage, then or ever.

    What a module makes stays as long as the process; to look for garbage among it takes a tenth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

"""A watch source for tests of trees in which nothing happens."""

from __future__ import annotations

import threading
from collections.abc import Callable


def watch_nothing(
    root: str, *, polling: bool, stop: threading.Event, emit: Callable[[set[str]], None]
) -> None:
    """Watch *root*, in which nothing happens, until stopped."""
    stop.wait()

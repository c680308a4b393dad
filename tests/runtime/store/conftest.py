"""An empty store, and a clock that ticks once a look."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from sidecar.runtime.store import SessionStore


@pytest.fixture
def clock() -> Callable[[], int]:
    """Milliseconds 1, 2, 3, ..."""
    ticks = count(1)
    return lambda: next(ticks)


@pytest.fixture
def store(tmp_path: Path, clock: Callable[[], int]) -> SessionStore:
    """An empty store."""
    return SessionStore(tmp_path / "store", clock=clock)

"""A state directory with a path that is short enough for a socket."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.attach.paths import DaemonPaths

collect_ignore_glob = ["test_*.py"] if sys.platform == "win32" else []
"""There are no unix sockets on Windows."""


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as folder:
        yield Path(folder).resolve() / "state"


@pytest.fixture
def paths(home: Path) -> DaemonPaths:
    made = DaemonPaths(home)
    made.make()
    return made

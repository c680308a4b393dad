"""Files and their user: the power of the superuser to open each, and a folder that becomes a link."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

_BOUNDING_SET_DROP = 24
_OVERRIDES = (1, 2)
"""``PR_CAPBSET_DROP`` of Linux, and the capabilities to write and to read whatever the modes of files say."""

DROPPED = "SIDECAR_TESTS_WITHOUT_POWERS"
"""The variable of a test process that has given them up."""


def opens_every_file() -> bool:
    """Whether this process may open files whatever their modes say, or the system has no modes."""
    return os.name == "nt" or (os.geteuid() == 0 and DROPPED not in os.environ)


def ordinary_user(test: Test) -> Test:
    """Mark a test that only an ordinary user can run; ``tests/test_ordinary_user.py`` runs it for root."""
    skip = pytest.mark.skipif(opens_every_file(), reason="this user may open every file")
    pytest.mark.ordinary_user(test)
    skip(test)
    return test


def drop_file_powers() -> None:
    """Give up the power to open every file, from the next program on; for ``preexec_fn``."""
    assert sys.platform == "linux"
    system = ctypes.CDLL(None, use_errno=True)
    for capability in _OVERRIDES:
        assert system.prctl(_BOUNDING_SET_DROP, capability, 0, 0, 0) == 0


def swap(folder: Path, target: Path) -> None:
    """Put a link to *target* in the place of *folder*."""
    folder.rename(folder.with_name("away"))
    folder.symlink_to(target)

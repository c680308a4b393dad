"""Counts the steps of a computation, so that a test of its cost does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_steps(action: Callable[[], object]) -> int:
    """Return how many functions are called while *action* runs, those written in C included."""
    n_calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return n_calls

"""The examples in the docstrings of this room run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import sidecar.window_budget
from sidecar.conductor import bridge, condense

MODULES = [
    info.name for info in pkgutil.walk_packages(sidecar.window_budget.__path__, "sidecar.window_budget.")
]


@pytest.mark.parametrize("name", [*MODULES, bridge.__name__, condense.__name__])
def test_examples_of(name: str) -> None:
    """Every example gives what it says."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0

"""The examples in the docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from sidecar import protocol

MODULES = [module.name for module in pkgutil.walk_packages(protocol.__path__, f"{protocol.__name__}.")]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    """In every module of the room."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0

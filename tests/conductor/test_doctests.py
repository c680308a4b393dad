"""The examples in the docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from sidecar import conductor

MODULES = [module.name for module in pkgutil.walk_packages(conductor.__path__, f"{conductor.__name__}.")]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    """In every module of the room."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0

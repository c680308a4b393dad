"""The examples in the docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from sidecar import agentcore

MODULES = [f"{agentcore.__name__}.{module.name}" for module in pkgutil.iter_modules(agentcore.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0

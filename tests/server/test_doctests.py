"""The examples in the docstrings of the front ends and the service hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from sidecar import acp, server, service

MODULES = [
    module.name
    for package in (acp, server, service)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0

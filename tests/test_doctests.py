"""Every example in a docstring of the package gives what it shows."""

from __future__ import annotations

import doctest
import importlib

import pytest

from repository import modules

WITH_EXAMPLES = sorted(f"sidecar.{name}" for name, path in modules() if ">>> " in path.read_text("utf-8"))


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed

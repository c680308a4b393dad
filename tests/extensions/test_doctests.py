"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from sidecar.extensions import custom_commands, front_matter, hooks, settings, skills

MODULES = (custom_commands, front_matter, hooks, settings, skills)


@pytest.mark.parametrize("module", [pytest.param(each, id=each.__name__) for each in MODULES])
def test_the_examples_are_true(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0

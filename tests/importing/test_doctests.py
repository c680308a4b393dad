"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from sidecar.importing import codex, content, graph, lines


@pytest.mark.parametrize(
    "module", [pytest.param(each, id=each.__name__) for each in (codex, content, graph, lines)]
)
def test_the_examples_are_true(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0

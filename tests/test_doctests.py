"""Every example in a docstring of the package gives what it shows."""

from __future__ import annotations

import doctest
import importlib
from itertools import groupby

import pytest

from repository import modules

WITH_EXAMPLES = sorted(f"sidecar.{name}" for name, path in modules() if ">>> " in path.read_text("utf-8"))
BY_ROOM = {room: [*names] for room, names in groupby(WITH_EXAMPLES, key=lambda name: name.split(".")[1])}


@pytest.mark.parametrize("room", BY_ROOM)
def test_the_examples_of_its_modules_hold(room: str) -> None:
    for name in BY_ROOM[room]:
        found = doctest.testmod(importlib.import_module(name))
        assert found.attempted, name
        assert not found.failed, name

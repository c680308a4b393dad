"""The daemon does what the records say, message by message; ``make same`` shows what differs."""

from __future__ import annotations

import sys

import pytest

from tests.same.compare import NAMES, differences, play, record_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,  # whole days of daemons; make same is the quick way to look
    pytest.mark.skipif(sys.platform != "linux", reason="the records have paths and commands of Linux"),
]


@pytest.mark.parametrize("name", NAMES)
async def test_the_daemon_does_what_the_record_says(name: str) -> None:
    stored = record_of(name).read_text(encoding="utf-8").splitlines()
    assert list(differences(stored, await play(name))) == []

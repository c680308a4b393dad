"""Waiting for the end of another process, with the system's own means and with psutil."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sidecar.transport.processes import is_alive, is_process_id, wait_for_process

pytestmark = pytest.mark.processes

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=sys.stdin)
print(child.pid, flush=True)
"""


@pytest.fixture(params=["descriptor", "psutil"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which means of waiting there is: a process descriptor where the system has it, or psutil alone."""
    if request.param == "psutil":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    return str(request.param)


@pytest.fixture
def stranger() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A process that is not our child, and the holder of its input: closing that ends it."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        yield int(starter.stdout.readline()), starter


def test_waits_until_the_process_has_ended(means: str, stranger: tuple[int, subprocess.Popen[bytes]]) -> None:
    pid, starter = stranger
    assert starter.stdin is not None
    assert is_alive(pid)
    watching = threading.Event()

    def is_meant() -> bool:
        watching.set()
        return True

    waiting = threading.Thread(target=wait_for_process, args=(pid, is_meant), daemon=True)
    waiting.start()
    assert watching.wait(10)
    assert waiting.is_alive()
    starter.stdin.close()
    waiting.join(10)
    assert not waiting.is_alive()


def test_does_not_wait_for_another_process_with_the_same_id(
    means: str, stranger: tuple[int, subprocess.Popen[bytes]]
) -> None:
    wait_for_process(stranger[0], lambda: False)


def test_does_not_wait_for_a_process_that_has_ended(means: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    wait_for_process(child.pid)
    assert not is_alive(child.pid)


@pytest.mark.parametrize(
    ("pid", "is_one"), [(None, False), (0, False), (-1, False), (1, True), (2**31 - 1, True), (2**31, False)]
)
def test_process_ids_are_positive_and_have_31_bits(pid: int | None, is_one: bool) -> None:
    assert is_process_id(pid) is is_one

"""Waiting for the end of another process, with the system's own means and with psutil."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sidecar.transport.processes import is_alive, is_process_id, wait_for_process, was_left_behind

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


ADOPTED = """
import os, sys
from sidecar.transport.processes import was_left_behind
os.setsid()  # process 1 of a container may share the session of the tests
if "leader" not in sys.argv and os.fork():
    os.wait()
else:
    print(was_left_behind(0, int(sys.argv[1])), flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="nothing is adopted on Windows")
@pytest.mark.parametrize(
    ("is_leader", "is_input_there", "is_orphan"),
    [
        pytest.param(False, True, True, id="a parent of another session has adopted it"),
        pytest.param(True, False, True, id="process 1 is its parent, and no client writes"),
        pytest.param(True, True, False, id="process 1 is its parent and its client"),
    ],
)
def test_an_orphan_is_known_by_its_session_or_by_silence(
    is_leader: bool, is_input_there: bool, is_orphan: bool
) -> None:
    command = [sys.executable, "-c", ADOPTED, "1", *(["leader"] if is_leader else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        if is_input_there:
            child.stdin.write(b"C")
            child.stdin.flush()
        assert child.stdout.readline() == f"{is_orphan}\n".encode()


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be polled on Windows")
def test_neither_a_living_parent_nor_the_first_process_of_a_container_is_an_adopter() -> None:
    silent, held = os.pipe()
    try:
        assert not was_left_behind(silent, os.getpid())
        assert not was_left_behind(silent, 0)
    finally:
        os.close(silent)
        os.close(held)

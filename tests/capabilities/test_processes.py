"""Children end when they should: alone, in groups, and with the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.processes import ChildEnd, ChildSpec, run_child
from started_processes import StartProcess

if TYPE_CHECKING:
    from tests.capabilities.conftest import Life

pytestmark = [pytest.mark.processes, pytest.mark.skipif(os.name == "nt", reason="POSIX process groups")]

Feed = Callable[[Callable[[bytes], None]], Awaitable[None]]


class Child:
    """One child: its output, and whether it is running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = b""
        self.cancel = CancelToken()
        self.has_output = asyncio.Event()
        self.pid = 0
        self.gone = False

    def _on_output(self, data: bytes) -> None:
        self.output += data
        self.has_output.set()

    def _start(self, pid: int) -> Callable[[], None]:
        self.pid = pid
        return self._end

    def _end(self) -> None:
        self.gone = True

    async def run(self, script: str, *, timeout_s: float = 60) -> ChildEnd:
        end = await self.run_program(["/bin/sh", "-c", script], timeout_s=timeout_s)
        assert self.gone
        return end

    async def run_program(self, argv: list[str], feed: Feed | None = None, timeout_s: float = 60) -> ChildEnd:
        spec = ChildSpec(argv, self.folder, dict(os.environ), timeout_s, feed)
        return await run_child(spec, on_output=self._on_output, on_start=self._start, cancel=self.cancel)


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


async def test_output_and_exit_code(child: Child) -> None:
    assert await child.run("echo out; echo err >&2; exit 3") == ChildEnd(3, "exited")
    assert child.output == b"out\nerr\n"


async def test_it_leads_its_own_session(child: Child) -> None:
    await child.run("ps -o sid= -p $$")
    assert int(child.output) == child.pid != os.getsid(0)


async def test_it_inherits_no_open_files(child: Child, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        await child.run(
            f"[ -e /proc/self/fd/{descriptor} ] && echo inherited; [ -e /dev/fd/3 ] && echo lifeline"
        )
    finally:
        os.close(descriptor)
    assert child.output == b""


ENDS = ("exited", "timeout", "cancelled", "given up")
"""A child ends by itself, at its time, with the call, or with the task of the call."""


async def end_child(child: Child, script: str, end: str) -> None:
    """Run *script*, which says ``up``, and let it *end*."""
    running = asyncio.ensure_future(child.run(script, timeout_s=1 if end == "timeout" else 60))
    if end in ("cancelled", "given up"):
        await child.has_output.wait()
        (child.cancel if end == "cancelled" else running).cancel()
    if end == "given up":
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert (await running).reason == end
    assert (child.gone, child.output) == (True, b"up\n")


@pytest.mark.parametrize("end", ENDS)
async def test_the_whole_group_ends(child: Child, life: Life, end: str) -> None:
    last = "true" if end == "exited" else "sleep 1000"
    await end_child(child, f"exec 9>life; sleep 1000 & sleep 1000 & echo up; {last}", end)
    await life.ends()


async def test_a_child_that_ignores_the_request_is_made_to_end(child: Child, life: Life) -> None:
    script = "exec 9>life; trap '' TERM; echo up; while :; do sleep 1000; done"
    running = asyncio.ensure_future(child.run(script))
    await child.has_output.wait()
    child.cancel.cancel()
    assert await running == ChildEnd(-signal.SIGKILL, "cancelled")
    await life.ends()


async def test_a_child_may_tidy_up_after_a_timeout(child: Child) -> None:
    end = await child.run("trap 'echo tidied; exit 7' TERM; echo up; sleep 1000 & wait", timeout_s=0.5)
    assert (end, child.output) == (ChildEnd(7, "timeout"), b"up\ntidied\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
async def test_a_supervisor_that_does_nothing_any_more_takes_all_below_it_along(
    child: Child, life: Life
) -> None:
    """It is stopped here; a slow machine may give it no time either."""
    script = "exec 9>life; (setsid sleep 1000 &); sleep 1000 & kill -STOP $PPID; echo up; sleep 1000"
    running = asyncio.ensure_future(child.run(script))
    await child.has_output.wait()
    child.cancel.cancel()
    assert (await running).reason == "cancelled"
    await life.ends()


DETACHED = """
import os, sys, time
for fork in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
os.close(1)
os.close(2)
os.write(8, b"x\\n")
time.sleep(1000)
"""
"""Forks twice, in sessions of their own: the second is neither in the group of its starter nor below it."""

ESCAPES = {
    "another session": "setsid sleep 1000 & echo x >&8",
    "another session, without a parent": "(setsid sleep 1000 &) & sleep 0.05; echo x >&8",
    "a double fork": f"{sys.executable} -c '{DETACHED}' &",
    "a double fork without an environment": f"env -i {sys.executable} -c '{DETACHED}' &",
    "a tree": "trap '' TERM; (setsid sleep 1000 &); setsid sh -c 'sleep 1000; :' & echo x >&8",
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
@pytest.mark.parametrize(
    ("escape", "end"),
    [
        *((escape, "cancelled") for escape in ESCAPES),
        *(("a tree", end) for end in ENDS if end != "cancelled"),
    ],
)
async def test_no_escape_outlives_the_call(child: Child, life: Life, escape: str, end: str) -> None:
    os.mkfifo(child.folder / "ready")
    last = "true" if end == "exited" else "sleep 1000"
    await end_child(child, f"exec 9>life 8<>ready; {ESCAPES[escape]}\nread -r _ <&8; echo up; {last}", end)
    await life.ends()


async def test_the_rest_of_a_pipeline_may_end_by_itself(child: Child) -> None:
    script = "(trap '' HUP; sleep 0.01; echo rest) & echo first"
    for _ in range(20):  # on a machine at work its time may be over before it runs
        assert await child.run(script) == ChildEnd(0, "exited")
        if child.output.endswith(b"first\nrest\n"):
            break
    assert child.output.endswith(b"first\nrest\n")


async def test_input_is_fed_once_the_child_runs(child: Child) -> None:
    async def feed(write: Callable[[bytes], None]) -> None:
        assert child.pid

        def write_all() -> None:
            for _ in range(10):
                write(b"x" * 100_000)

        await asyncio.to_thread(write_all)

    await child.run_program(["wc", "-c"], feed)
    assert int(child.output) == 1_000_000


async def test_a_feed_that_fails_is_heard_and_ends_the_child(child: Child) -> None:
    async def feed(write: Callable[[bytes], None]) -> None:
        raise LookupError("nothing to feed")

    with pytest.raises(LookupError):
        await child.run_program(["cat"], feed)
    assert child.gone


async def test_a_program_that_is_not_there(child: Child) -> None:
    async def feed(write: Callable[[bytes], None]) -> None:
        raise AssertionError("there is nothing to feed")

    with pytest.raises(FileNotFoundError):
        await child.run_program(["/nonexistent/program"], feed)
    assert (child.pid, child.gone) == (0, False)


@pytest.mark.parametrize(("program", "code"), [("/nonexistent/program", 127), ("/", 126)])
async def test_a_supervisor_without_a_program_to_run_says_so_as_a_shell_does(
    child: Child, program: str, code: int
) -> None:
    assert await child.run_program([program]) == ChildEnd(code, "exited")
    assert child.output.startswith(f"{program}: ".encode())


DAEMON = """
import asyncio, os, sys
from pathlib import Path
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.processes import ChildSpec, run_child

script = "exec 9>life; sleep 1000 & (setsid sleep 1000 &); echo up; sleep 1000"
spec = ChildSpec(["/bin/sh", "-c", script], Path.cwd(), dict(os.environ), 60)
asyncio.run(run_child(
    spec,
    on_output=lambda data: os.write(1, data),
    on_start=lambda pid: lambda: None,
    cancel=CancelToken(),
))
"""


async def test_a_killed_daemon_takes_its_children_along(
    life: Life, tmp_path: Path, start_process: StartProcess
) -> None:
    daemon = start_process([sys.executable, "-c", DAEMON], cwd=tmp_path)
    assert daemon.stdout is not None
    assert await asyncio.to_thread(daemon.stdout.readline) == b"up\n"
    daemon.kill()
    await life.ends()

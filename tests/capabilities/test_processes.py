"""Children end when they should: alone, in groups, and with the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities import processes
from sidecar.capabilities.processes import ChildEnd, ChildSpec, run_child, with_lifeline
from started_processes import StartProcess

if TYPE_CHECKING:
    from tests.capabilities.conftest import Life

pytestmark = [pytest.mark.processes, pytest.mark.skipif(os.name == "nt", reason="POSIX process groups")]


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

    async def run(self, script: str, *, timeout_s: float = 60, bare: bool = False) -> ChildEnd:
        argv = ["/bin/sh", "-c", script]
        spec = ChildSpec(argv if bare else with_lifeline(argv), self.folder, dict(os.environ), timeout_s)
        end = await run_child(spec, on_output=self._on_output, on_start=self._start, cancel=self.cancel)
        assert self.gone
        return end


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


async def test_output_and_exit_code(child: Child) -> None:
    assert await child.run("echo out; echo err >&2; exit 3") == ChildEnd(3, "exited")
    assert child.output == b"out\nerr\n"


async def test_death_by_signal(child: Child) -> None:
    assert await child.run("kill -9 $$") == ChildEnd(-signal.SIGKILL, "exited")


async def test_there_is_no_input(child: Child) -> None:
    assert await child.run("cat; echo done") == ChildEnd(0, "exited")
    assert child.output == b"done\n"


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


async def test_what_it_leaves_behind_ends_with_it(child: Child, life: Life) -> None:
    assert await child.run("exec 9>life; sleep 1000 & sleep 1000 & echo up") == ChildEnd(0, "exited")
    await life.ends()


async def test_a_timeout_ends_the_whole_group(child: Child, life: Life) -> None:
    end = await child.run("exec 9>life; echo up; sleep 1000 & sleep 1000", timeout_s=0.5)
    assert (end.reason, child.output) == ("timeout", b"up\n")
    await life.ends()


async def test_a_cancel_ends_the_whole_group(child: Child, life: Life) -> None:
    running = asyncio.ensure_future(child.run("exec 9>life; echo up; sleep 1000 & sleep 1000"))
    await child.has_output.wait()
    child.cancel.cancel()
    assert (await running).reason == "cancelled"
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


async def test_a_task_that_is_cancelled_takes_its_child_along(child: Child, life: Life) -> None:
    running = asyncio.ensure_future(child.run("exec 9>life; echo up; sleep 1000 & sleep 1000"))
    await child.has_output.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert child.gone
    await life.ends()


async def test_who_left_the_group_and_holds_the_pipe_does_not_hang_us(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_DRAIN_S", 0.1)
    os.mkfifo(tmp_path / "ready")
    escape = f"{sys.executable} -c 'import os, time; os.setsid(); print(os.getpid(), flush=True); "
    escape += 'open("ready", "w").close(); time.sleep(1000)\''
    try:
        async with asyncio.timeout(30):
            end = await child.run(f"{escape} & cat ready; echo left")
    finally:
        os.kill(int(child.output.split()[0]), signal.SIGKILL)
    assert (end, child.output.split()[1:]) == (ChildEnd(0, "exited"), [b"left"])


@pytest.mark.parametrize("timeout_s", [60, 0.5])
async def test_a_cancel_and_a_timeout_end_also_what_has_left_the_group(
    child: Child, life: Life, timeout_s: float
) -> None:
    left = f"{sys.executable} -c 'import os, time; os.setsid(); print(1, flush=True); time.sleep(1000)'"
    running = asyncio.ensure_future(child.run(f"exec 9>life; {left} 9>&9 & wait", timeout_s=timeout_s))
    await child.has_output.wait()
    if timeout_s == 60:
        child.cancel.cancel()
    assert (await running).reason in ("cancelled", "timeout")
    await life.ends()


async def test_input_is_fed_once_the_child_runs(child: Child, tmp_path: Path) -> None:
    async def feed(write: Callable[[bytes], None]) -> None:
        assert child.pid

        def write_all() -> None:
            for _ in range(10):
                write(b"x" * 100_000)

        await asyncio.to_thread(write_all)

    spec = ChildSpec(["wc", "-c"], tmp_path, dict(os.environ), 60, feed)
    await run_child(spec, on_output=child._on_output, on_start=child._start, cancel=child.cancel)
    assert int(child.output) == 1_000_000


async def test_a_feed_that_fails_is_heard_and_ends_the_child(child: Child, tmp_path: Path) -> None:
    async def feed(write: Callable[[bytes], None]) -> None:
        raise LookupError("nothing to feed")

    spec = ChildSpec(["cat"], tmp_path, dict(os.environ), 60, feed)
    with pytest.raises(LookupError):
        await run_child(spec, on_output=child._on_output, on_start=child._start, cancel=child.cancel)
    assert child.gone


async def test_a_program_that_is_not_there(child: Child, tmp_path: Path) -> None:
    spec = ChildSpec(["/nonexistent/program"], tmp_path, dict(os.environ), 60)
    with pytest.raises(FileNotFoundError):
        await run_child(spec, on_output=child._on_output, on_start=child._start, cancel=child.cancel)
    assert (child.pid, child.gone) == (0, False)


DAEMON = """
import asyncio, os, sys
from pathlib import Path
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.processes import ChildSpec, run_child, with_lifeline

script = "exec 9>life; sleep 1000 & sleep 1000 & echo up; sleep 1000"
spec = ChildSpec(with_lifeline(["/bin/sh", "-c", script]), Path("."), dict(os.environ), 60)
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

"""The process ends when it should, as it should, and within its grace period whatever happens inside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import IO

import pytest

from sidecar.transport.lifetime import ExitReason, Lifetime, supervise
from started_processes import Process

pytestmark = pytest.mark.processes

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and processes")


class FakeConnection:
    """A connection that ends when told; keeps what it was told in order."""

    def __init__(self, ends_with: ExitReason | None = None) -> None:
        self.told: list[str] = []
        self._ends_with = ends_with

    async def wait_ended(self) -> ExitReason:
        if self._ends_with is None:
            await asyncio.Event().wait()
        assert self._ends_with is not None
        return self._ends_with

    def announce_end(self, reason: str, in_s: float) -> None:
        self.told.append(f"announce {reason} {in_s}")

    async def aclose(self, seconds: float) -> None:
        self.told.append("close")

    async def settle(self) -> None:
        self.told.append("settle")


async def test_any_thread_may_stop_and_the_first_reason_counts() -> None:
    life = Lifetime()
    threading.Thread(target=life.stop, args=("from a thread", 3)).start()
    assert await life.wait() == ExitReason("from a thread", 3)
    life.stop("second", 1)
    assert await life.wait() == ExitReason("from a thread", 3)


async def test_the_hard_end_comes_after_the_grace_period_without_the_loop() -> None:
    codes: list[int] = []
    gone = threading.Event()

    def leave(code: int) -> None:
        codes.append(code)
        gone.set()

    life = Lifetime(0.01, leave)
    life.stop("stuck", 4)
    assert gone.wait(10), "this blocks the event loop, as a handler that hangs does"
    assert codes == [4]


@pytest.mark.parametrize(
    ("end", "code"), [(ExitReason("end of input", 1), 1), (None, 0)], ids=["the client's", "the process's"]
)
async def test_an_end_is_announced_then_all_settles_and_closes(end: ExitReason | None, code: int) -> None:
    connection, life = FakeConnection(end), Lifetime(5.0)
    if end is None:
        life.stop("SIGTERM", 0)
    assert await supervise(life, connection, connection.settle) == code
    reason = "SIGTERM" if end is None else end.reason
    assert connection.told == [f"announce {reason} 5.0", "settle", "close"]


async def test_settling_that_hangs_or_fails_is_left() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def fails() -> None:
        raise OSError("disk full")

    for settle in (hangs, fails):
        connection, life = FakeConnection(), Lifetime(0.01)
        life.stop("SIGTERM", 0)
        assert await supervise(life, connection, settle) == 0
        assert connection.told[-1] == "close"


@pytest.mark.parametrize(
    ("has_pidfd", "is_gone_before"),
    [
        pytest.param(True, False, id="a process that ends"),
        pytest.param(True, True, id="one that is gone already"),
        pytest.param(False, True, id="one without a descriptor", marks=POSIX),
    ],
)
async def test_a_watched_process_that_ends_is_noticed(
    sleeper: Process, monkeypatch: pytest.MonkeyPatch, *, has_pidfd: bool, is_gone_before: bool
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    life = Lifetime()
    if is_gone_before:
        sleeper.kill()
        sleeper.wait()
    life.watch_process(sleeper.pid)
    sleeper.kill()
    stop = await asyncio.wait_for(life.wait(), 10)
    assert stop == ExitReason(f"process {sleeper.pid} is gone", 1)


@pytest.mark.parametrize(
    "pid", [None, 0, -1, 2**40, os.getpid()], ids=["none", "zero", "negative", "too high", "our own"]
)
async def test_no_process_is_not_watched(pid: int | None) -> None:
    before = threading.active_count()
    Lifetime().watch_process(pid)
    assert threading.active_count() == before


PROGRAM = """
import asyncio, sys, threading, time
from sidecar.transport.lifetime import Lifetime, leave, run, supervise, ExitReason

class Connection:
    async def wait_ended(self):
        print("ready", flush=True)
        {inside}
        await asyncio.Event().wait()
    def announce_end(self, reason, in_s):
        print("ending", reason, flush=True)
    async def aclose(self, seconds):
        print("closed", flush=True)

async def settle():
    print("settled", flush=True)

async def main(life):
    {before}
    return await supervise(life, Connection(), settle)

run(main, grace_s={grace})
"""


def start(inside: str = "", before: str = "", grace: float = 2.0) -> subprocess.Popen[bytes]:
    code = PROGRAM.format(inside=inside or "pass", before=before or "pass", grace=grace)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert output(process).readline() == b"ready\n"
    return process


def output(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


@POSIX
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_settles_and_exits_0(name: str) -> None:
    """Under nohup the tests hand ignored signals down."""
    heed = f"import signal; signal.signal(signal.{name}, signal.SIG_DFL); life.handle_signals()"
    process = start(before=heed)
    process.send_signal(getattr(signal, name))
    said, _ = process.communicate(timeout=20)
    assert (process.returncode, said.decode().split("\n")[:3]) == (0, [f"ending {name}", "settled", "closed"])


@POSIX
def test_a_signal_that_the_starter_ignores_stays_ignored() -> None:
    process = start(
        before="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); life.handle_signals()"
    )
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0


@POSIX
def test_a_stuck_thread_does_not_hold_the_process() -> None:
    process = start(before="asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0


@POSIX
def test_a_stuck_event_loop_does_not_hold_the_process() -> None:
    process = start(inside="time.sleep(3600)", grace=0.2)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, b"")


@POSIX
def test_a_main_that_fails_exits_1() -> None:
    code = (
        "from sidecar.transport.lifetime import run\nasync def main(life): raise ValueError('x')\nrun(main)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 1


MIDDLE = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=0, stdout=1)
print(child.pid, flush=True)
child.wait()
"""


@POSIX
@pytest.mark.parametrize("has_pidfd", [True, False])
def test_the_end_of_the_parent_ends_it_though_stdin_stays_open(has_pidfd: bool) -> None:
    """This process holds the daemon's stdin; the one between is killed and cannot tell."""
    before = (
        "life.watch_parent()"
        if has_pidfd
        else "import os; os.pidfd_open = None; del os.pidfd_open; life.watch_parent()"
    )
    code = PROGRAM.format(inside="pass", before=before, grace=2.0)
    middle = subprocess.Popen(
        [sys.executable, "-c", MIDDLE, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    lines = output(middle)
    assert b"ready\n" in {lines.readline(), lines.readline()}
    middle.kill()
    # The end of this output is the end of the daemon, its last holder.
    assert lines.read().decode().split("\n")[:3] == ["ending the parent process is gone", "settled", "closed"]
    middle.communicate()


@POSIX
def test_the_first_process_of_a_container_has_no_parent_to_wait_for() -> None:
    before = "from sidecar.transport import lifetime; lifetime.STARTED_BY = 0; life.watch_parent()"
    process = start(before=before)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    assert said.startswith(b"ending SIGTERM\n")

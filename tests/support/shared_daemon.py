"""A state directory with a shared daemon of its own, shims to it, and users who answer when told to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import DaemonPaths
from sidecar_client import SidecarClient, allow

SIDECAR = (sys.executable, "-P", "-m", "sidecar")
PATIENCE_S = 30.0


class Stage:
    """A state directory, its shared daemon, and shims to it."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.paths = DaemonPaths(home)
        self.environment = {"INDUSAGI_HOME": str(home)}

    def shim(self, *arguments: str, **setup: Any) -> SidecarClient:
        """Return a client behind a shim of its own."""
        command = (*SIDECAR, "serve", "--shared", *arguments)
        return SidecarClient.spawn(command, cwd=self.paths.home, env=self.environment, **setup)

    def run(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        env = {**os.environ, **self.environment}
        return subprocess.run(
            [*SIDECAR, *arguments], env=env, input=typed, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def start(self, *command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a program whose output is read here."""
        env = {**os.environ, **self.environment}
        return subprocess.Popen(command, env=env, stdin=stdin, stdout=subprocess.PIPE)

    @property
    def daemon_pid(self) -> int | None:
        """The number that the last daemon has left."""
        if not self.paths.lock.exists():
            return None
        lock = FileLock(self.paths.lock)
        pid = lock.read_holder()
        lock.release()
        return pid

    async def wait_until_gone(self) -> None:
        """Return when no daemon runs any more."""
        lock = FileLock(self.paths.lock)
        await asyncio.wait_for(asyncio.to_thread(lock.take), PATIENCE_S)
        lock.release()

    async def end(self, number: signal.Signals) -> None:
        """Send the daemon a signal and see it out."""
        assert self.daemon_pid is not None
        os.kill(self.daemon_pid, number)
        await self.wait_until_gone()


@pytest.fixture
async def stage(home: Path) -> AsyncIterator[Stage]:
    """A stage without a daemon; the one that is started ends with the test."""
    made = Stage(home)
    yield made
    if made.daemon_pid is not None:
        with suppress(ProcessLookupError):
            os.kill(made.daemon_pid, signal.SIGKILL)
        await made.wait_until_gone()


@pytest.fixture(scope="module")
def running() -> Iterator[Stage]:
    """A stage whose daemon runs, for every test of a module that leaves it alone."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as folder:
        made = Stage(Path(folder).resolve() / "state")
        with made.start(*SIDECAR, "serve", "--shared", "--daemon") as daemon:
            assert daemon.stdout is not None
            try:
                assert daemon.stdout.readline().startswith(b"listening at ")
                yield made
            finally:
                daemon.terminate()
        assert daemon.returncode == 0


class User:
    """The user of one client, who is asked and gives an *answer* when told to.

    Attributes:
        asked: the questions that were not looked at yet.
        n_asked: the number of all questions.
        may_answer: set to let the user answer.
        was_taken_back: set when a question was taken back before its answer.
    """

    def __init__(self, answer: Callable[[Any], Any] = allow) -> None:
        self.asked: asyncio.Queue[Any] = asyncio.Queue()
        self.n_asked = 0
        self.may_answer, self.was_taken_back = asyncio.Event(), asyncio.Event()
        self._answer = answer

    async def __call__(self, question: Any) -> Any:
        self.n_asked += 1
        self.asked.put_nowait(question)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_taken_back.set()
            raise
        return self._answer(question)

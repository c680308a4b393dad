"""Shared setup of the tests: impossible states raise, and the user's own files are never touched.

A test that starts a process or a server is marked ``e2e`` (the real daemon) or ``processes`` (anything
else), so that ``make quick`` can leave it out. A test without the mark fails when it starts one.

Properties are tried with the same cases each time; ``--hypothesis-profile=search`` looks for new ones, and
``make quick`` tries a tenth of them.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest
from hypothesis import HealthCheck, settings

from sidecar.llmgateway.names import PROVIDERS_BY_NAME
from sidecar.workspace import watch
from started_processes import Process, StartProcess, started_processes

os.environ["INDUSAGI_STRICT"] = "1"

settings.register_profile(
    "same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("quick", parent=settings.get_profile("same"), max_examples=10)
settings.register_profile("search", parent=settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


@pytest.fixture
def start_process() -> Iterator[StartProcess]:
    """A function that starts processes, which end with the test."""
    with started_processes() as start:
        yield start


@pytest.fixture
def sleeper(start_process: StartProcess) -> Process:
    """A process that runs until its standard input ends."""
    return start_process([sys.executable, "-c", "input()"], stdout=None, stderr=subprocess.DEVNULL)


_RUN: Final = f"{os.getpid()}-{time.time_ns()}"
"""The run of this process, which every process that it starts has in its environment."""

os.environ["TESTS_RUN"] = _RUN


@pytest.fixture(scope="session", autouse=True)
def no_process_stays() -> Iterator[None]:
    """Fail a run when a process that its tests have started, or one of its children, is there at its end.

    Those that are ending have ten seconds, then they are killed. It is the first of the fixtures of a run,
    and so ends last.
    """
    yield
    ends_at = time.monotonic() + 10
    while (left := _started_by_this_run()) and time.monotonic() < ends_at:
        time.sleep(0.1)
    if left:
        _kill(left)
        pytest.fail(f"started, and still there at the end: {', '.join(left.values())}", pytrace=False)


def _started_by_this_run(before: frozenset[int] = frozenset()) -> dict[psutil.Process, str]:
    """Return the processes of this run without those numbered in *before*, each with command and test."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            env = process.environ()
            if env.get("TESTS_RUN") == _RUN and process.pid not in before | {os.getpid()}:
                command = " ".join(process.cmdline())[:200]
                found[process] = f"{process.pid} {command} of {env.get('PYTEST_CURRENT_TEST')}"
    return found


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


_BEFORE_FAILURE: Final = pytest.StashKey[frozenset[int]]()
"""The numbers of all processes that were there before the call of a failed test that may start some."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Keep what a failing test must leave alone."""
    before = frozenset(psutil.pids()) if may_start(item) else None
    try:
        return (yield)
    except BaseException:
        if before is not None:
            item.stash[_BEFORE_FAILURE] = before
        raise


def may_start(item: pytest.Item) -> bool:
    """Return whether a test may start processes and servers."""
    return any(item.get_closest_marker(mark) for mark in ("e2e", "processes"))


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let daemons that a test names no state directory for keep theirs among the temporary files.

    They find no key of the user who runs the tests, and no model server on this machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDUSAGI_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("INDUSAGI_MODEL", raising=False)
        for provider in PROVIDERS_BY_NAME.values():
            for name in (*provider.key_env, *provider.own_env):
                patch.delenv(name, raising=False)
            if provider.base_url_env is not None and not provider.needs_key:
                patch.setenv(provider.base_url_env, "http://127.0.0.1:9/v1")
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_watch() -> Iterator[None]:
    """Let watchers look at once whether they are to end; daemons that a test starts keep their own pace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "_STEP_MS", 10)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector from looking at the collected tests, which are many and stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # with a little garbage, which takes a second to find
        gc.enable()


_started: list[str] = []
"""The programs and servers that the running test has started."""

_LOOK_UPS = {"ldconfig", "gcc", "cc", "objdump", "ld", "uname", "lsb_release"}
"""Programs by which the standard library and the SDKs find libraries and the name of the system."""


def _record_process(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"):
        program = str(arguments[0]) if arguments else event
        if Path(program).name not in _LOOK_UPS:
            _started.append(program)
    elif event == "socket.bind" and isinstance(arguments[1], tuple):
        _started.append("a server")


sys.addaudithook(_record_process)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the processes and servers of the test before."""
    _started.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Kill what a failed test has left, and fail one that started something and is not marked for it."""
    try:
        result = yield
    finally:
        if (before := item.stash.get(_BEFORE_FAILURE, None)) is not None:
            _kill(_started_by_this_run(before))
    if _started and not may_start(item):
        pytest.fail(
            f"starts {_started[0]}; mark the test or its module with pytest.mark.processes", pytrace=False
        )
    return result

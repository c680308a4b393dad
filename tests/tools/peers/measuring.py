"""Runs an agent on a task and measures it: time, CPU time of it and its children, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Final

import psutil

from peers.fake_models import LAST_WORD, FakeModels, Task
from peers.hosted import AgentFailedError, Link
from peers.programs import PROMPT, Program

_DEADLINE_S: Final = 300.0
_REST_S: Final = 0.25
_REST_CPU_S: Final = 0.02
_MOST_RESTS: Final = 40
_MEGABYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of an agent, or one turn of an agent that stays.

    Attributes:
        wall_s: from its start to its end.
        cpu_s: the CPU time of its processes, user and system.
        first_call_s: from its start to its first request to the model.
        memory_mb: the resident memory: of a run the peak of its largest process, of a turn the sum of all
            of its processes at the end.
    """

    wall_s: float
    cpu_s: float
    first_call_s: float
    memory_mb: float

    def least(self, other: Run) -> Run:
        """Return the smaller of each figure of two runs of the same task."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return Run(**{name: min(own, others) for name, own, others in pairs})


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent runs: its environment, the folder of the project, and a file for what it prints."""

    env: dict[str, str]
    project: Path
    log: Path


def run_once(program: Program, place: Place, fake: FakeModels, task: Task) -> Run:
    """Return the run of *program* that answers one prompt and ends. Raises AgentFailedError."""
    fake.play(task, place.project)
    began = time.perf_counter()
    with place.log.open("w") as log, _started(program, program.once, place, log) as process:
        # Not with wait(): the resources of the process are wanted.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took_s = time.perf_counter() - began
    printed = place.log.read_text(errors="replace")
    if process.returncode != 0 or LAST_WORD not in printed:
        raise AgentFailedError(f"exit code {process.returncode}; {_last_line(printed)}")
    _check_calls(fake, task)
    return Run(
        wall_s=took_s,
        cpu_s=used.ru_utime + used.ru_stime,
        first_call_s=fake.first_call_s - began,
        memory_mb=used.ru_maxrss * 1024 / _MEGABYTE,
    )


def run_hosted(program: Program, place: Place, fake: FakeModels, tasks: Sequence[Task]) -> tuple[Run, ...]:
    """Return the start of *program* until it has a session, then its turns for *tasks*, one after the other.

    Before each turn it comes to rest, as it does while a user types. Raises AgentFailedError.
    """
    began = time.perf_counter()
    with place.log.open("w") as log, _started(program, program.hosted, place, log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            ask = program.dialect(Link(process.stdin, process.stdout), str(place.project))
            took_s = time.perf_counter() - began
            used_s, memory_mb = _usage(process.pid)
            runs = [Run(wall_s=took_s, cpu_s=used_s, first_call_s=took_s, memory_mb=memory_mb)]
            for task in tasks:
                before_s = _wait_for_rest(process.pid)
                fake.play(task, place.project)
                began = time.perf_counter()
                ask(PROMPT)
                took_s = time.perf_counter() - began
                used_s, memory_mb = _usage(process.pid)
                _check_calls(fake, task)
                first_s, cpu_s = fake.first_call_s - began, used_s - before_s
                runs.append(Run(wall_s=took_s, cpu_s=cpu_s, first_call_s=first_s, memory_mb=memory_mb))
        except (AgentFailedError, OSError, ValueError, KeyError, psutil.Error) as error:
            raise AgentFailedError(f"{error}; {_last_line(place.log.read_text(errors='replace'))}") from error
    return tuple(runs)


@contextmanager
def _started(
    program: Program, arguments: Sequence[str], place: Place, log: IO[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start *program* in a group of processes, which ends with the context or its deadline."""
    is_once = arguments is program.once
    process = subprocess.Popen(
        [program.executable, *arguments],
        env=place.env,
        cwd=place.project,
        stdin=subprocess.DEVNULL if is_once else subprocess.PIPE,
        stdout=log if is_once else subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )

    def end() -> None:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)

    deadline = Timer(_DEADLINE_S, end)
    deadline.start()
    try:
        yield process
    finally:
        deadline.cancel()
        end()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        if process.returncode is None:
            process.wait()


def _usage(pid: int) -> tuple[float, float]:
    """Return the CPU time in seconds and the memory in MB of a process and all below it."""
    cpu_s, memory_mb = 0.0, 0.0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            cpu_s += sum(process.cpu_times()[:4])
            memory_mb += process.memory_info().rss / _MEGABYTE
        except psutil.NoSuchProcess:
            continue  # counted with its parent, which waited for it
    return cpu_s, memory_mb


def _wait_for_rest(pid: int) -> float:
    """Wait until the agent hardly works any more; return its CPU time."""
    before_s, _ = _usage(pid)
    for _ in range(_MOST_RESTS):
        time.sleep(_REST_S)
        now_s, _ = _usage(pid)
        if now_s - before_s <= _REST_CPU_S:
            break
        before_s = now_s
    return now_s


def _check_calls(fake: FakeModels, task: Task) -> None:
    if fake.problem is not None:
        raise AgentFailedError(fake.problem)
    if fake.n_calls != task.n_reads + 1:
        raise AgentFailedError(f"it made {fake.n_calls} calls of the model in place of {task.n_reads + 1}")


def _last_line(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"

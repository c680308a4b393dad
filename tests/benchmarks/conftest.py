"""How long programs take from their start to their first answer, measured in turns; and a bound on all."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

ROUNDS = 12
MOST_S = 1200
"""The longest time of one benchmark, also on a machine at work, in seconds."""


@dataclass(frozen=True)
class Starts:
    """Starts programs with *env*."""

    env: dict[str, str]

    def seconds(self, arguments: Sequence[str], asked: bytes) -> float:
        """Return how long it takes from the start of a process to its answer to what it is *asked*."""
        pipe = subprocess.PIPE
        began: float = time.perf_counter()
        command = [sys.executable, *arguments]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=self.env, bufsize=0) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(asked)
            answer = process.stdout.read(1 << 16)
            took = time.perf_counter() - began
            process.kill()
        assert b'"result"' in answer
        return took

    def ratio(self, name: str, bare: Sequence[str], ours: Sequence[str], asked: bytes) -> float:
        """Return how many times as long as *bare* our program takes: the median of neighbours in time."""
        pairs = [(self.seconds(bare, asked), self.seconds(ours, asked)) for _ in range(ROUNDS + 1)]
        pairs = pairs[1:]  # the first compiles what was never run
        ratio = statistics.median(own / theirs for theirs, own in pairs)
        best = [1e3 * min(times) for times in zip(*pairs, strict=True)]
        print(f"\n{name}: {ratio:.2f}x of bare; best {best[1]:.0f} ms and {best[0]:.0f} ms")
        return ratio


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Fail a benchmark that never ends, so that those behind it are run."""

    def fail(_number: int, _frame: object) -> None:
        pytest.fail(f"it took longer than {MOST_S} s")

    if sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(MOST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def times_are_judged(request: pytest.FixtureRequest) -> bool:
    """A test that the suite runs too fails for its times in a run of the benchmarks alone."""
    return not request.config.getoption("benchmark_skip")


@pytest.fixture(scope="session")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Starts:
    """Programs start in a state directory of their own, and compiled, as what is installed is."""
    home = tmp_path_factory.mktemp("home")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return Starts({**env, "INDUSAGI_HOME": str(home), "PYTHONPYCACHEPREFIX": str(home / "compiled")})

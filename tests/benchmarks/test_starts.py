"""How long a user waits for a daemon's first session and for the first answer of ``sidecar run``.

Each is compared with the start of a bare interpreter in the same run, by the wall clock and by the processor
time of the process and its children. The model answers at once, on this machine. The figures are for
a reader; faults are found by the tests of the commands.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from measures import tell
from provider_fakes import Ended, Said, Spent, fake_provider
from sidecar.protocol.framing import frame_with_header

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Starts

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="it has no wait4"),
]

ROUNDS = 3
BARE = ["-c", "print('ready')"]


class Cost(NamedTuple):
    """The milliseconds of a start by the wall clock, and of its processes by their processor time."""

    wall: float
    processor: float


def frame(number: int | None, method: str, params: Mapping[str, Any]) -> bytes:
    named = {} if number is None else {"id": number}
    return frame_with_header(
        json.dumps({"jsonrpc": "2.0", **named, "method": method, "params": params}).encode()
    )


def start(arguments: list[str], env: Mapping[str, str], asked: bytes, mark: bytes) -> Cost:
    """Start Python with *arguments*, and return the cost until *mark* is in its output."""
    began, output = time.perf_counter(), b""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *arguments], stdin=pipe, stdout=pipe, env=env, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asked)
        while mark not in output:
            part = process.stdout.read(1 << 16)
            assert part, output
            output += part
        wall_s = time.perf_counter() - began
        if asked:
            process.kill()  # else it ends by itself, with its children
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return Cost(1e3 * wall_s, 1e3 * (usage.ru_utime + usage.ru_stime))


def compare(name: str, bare: Callable[[], Cost], ours: Callable[[], Cost], rounds: int) -> None:
    """Print the cost of *ours*, and its ratio to the *bare* start beside it; the first pair warms up."""
    pairs = [(bare(), ours()) for _ in range(rounds + 1)][-max(1, rounds) :]
    for kind in Cost._fields:
        least = min(getattr(own, kind) for _, own in pairs)
        ratio = statistics.median(getattr(own, kind) / getattr(other, kind) for other, own in pairs)
        tell(f"{name}, {kind}: {least:.0f} ms, {ratio:.1f} of a bare start")


@pytest.mark.parametrize("has_key", [False, True], ids=["without a key", "with a key"])
def test_the_first_session(tmp_path: Path, starts: Starts, times_are_judged: bool, has_key: bool) -> None:
    """A session that is opened at once is not slowed by what is loaded for later ones.

    With a key the first pair looks its models up, and the others find them in the state directory.
    """
    env = {name: value for name, value in starts.env.items() if not name.endswith("_API_KEY")}
    model = {} if has_key else {"model": "offline-1"}
    asked = frame(1, "initialize", {"processId": None, "rootUri": tmp_path.as_uri(), "capabilities": {}})
    asked += frame(None, "initialized", {})
    asked += frame(2, "sidecar/session/new", {"cwd": str(tmp_path), **model})
    if has_key:
        env["OPENAI_API_KEY"] = "sk-fake"
    compare(
        f"first session {'with' if has_key else 'without'} a key",
        lambda: start(BARE, env, b"", b"ready"),
        lambda: start(["-P", "-m", "sidecar"], env, asked, b'"id":2,"result"'),
        ROUNDS if times_are_judged else 0,
    )


async def test_the_first_answer_of_a_run(tmp_path: Path, starts: Starts, times_are_judged: bool) -> None:
    n_rounds = ROUNDS if times_are_judged else 0
    scene = (Said(("hello",)), Spent(1, 1), Ended("complete"))
    async with fake_provider("openai-chat", [scene] * (n_rounds + 1)) as fake:
        env = {**starts.env, "OPENAI_API_KEY": "sk-fake", "OPENAI_BASE_URL": f"{fake.http.url}/v1"}
        arguments = [
            "-P",
            "-m",
            "sidecar",
            "run",
            "--cwd",
            str(tmp_path),
            "--model",
            "openai-chat:gpt-5",
            "hi",
        ]
        await asyncio.to_thread(
            compare,
            "first answer of a run",
            lambda: start(BARE, env, b"", b"ready"),
            lambda: start(arguments, env, b"", b"hello"),
            n_rounds,
        )

"""Processes that a test starts; each of them is ended with the test, whatever becomes of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

Process: TypeAlias = "subprocess.Popen[bytes]"
StartProcess: TypeAlias = Callable[..., Process]
"""Takes a command and the options of Popen; standard input and output are pipes unless given."""


@contextmanager
def started_processes() -> Iterator[StartProcess]:
    """Yield a function that starts processes; at the end they are killed and their pipes closed."""
    processes: list[Process] = []

    def start(command: Sequence[object], **options: Any) -> Process:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process: Process = subprocess.Popen([str(part) for part in command], **(pipes | options))
        processes.append(process)
        return process

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            process.wait()

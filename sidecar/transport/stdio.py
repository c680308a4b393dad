"""Standard input and output, reserved for the protocol.

Taking them comes first, before anything heavy is imported. From then on a stray ``print``, a C library that
writes to descriptor 1, or a child process reaches standard error, and a child cannot read the client's input.
This module imports only cheap modules, and never puts the descriptors back.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProtocolFds:
    """The descriptors of the client's pipes, which children do not inherit."""

    read_fd: int
    write_fd: int


def take_stdio() -> ProtocolFds:
    """Move the client's pipes away from descriptors 0 and 1. Raises OSError when one of them is closed."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        os.fstat(2)
    except OSError:  # closed by the starter: without this, the client's pipe would become descriptor 2
        _move(os.open(os.devnull, os.O_WRONLY), 2)
    taken = ProtocolFds(os.dup(0), os.dup(1))
    _move(os.open(os.devnull, os.O_RDONLY), 0)
    _move(os.dup(2), 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
    sys.stdout = sys.stderr
    if sys.platform == "win32":
        import msvcrt

        for fd in (taken.read_fd, taken.write_fd):
            msvcrt.setmode(fd, os.O_BINARY)  # or Windows turns LF into CR LF
    return taken


def _move(source: int, target: int) -> None:
    """Make *source* the descriptor *target*, which children inherit."""
    if source == target:
        os.set_inheritable(target, True)
        return
    os.dup2(source, target)
    os.close(source)

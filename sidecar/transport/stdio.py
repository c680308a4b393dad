"""Take standard input and output for the protocol, so that nothing else can touch them.

Called first of all, before anything heavy is imported: from then on a stray ``print``, a C library that
writes to descriptor 1, or a child process reaches standard error, and a child reads nothing of the client's.
Imports nothing but the standard library's cheapest; never puts anything back.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

__all__ = ["ProtocolFds", "take_stdio"]


@dataclass(frozen=True, slots=True)
class ProtocolFds:
    """The client's ends, as descriptors that children do not inherit."""

    read_fd: int
    write_fd: int


def take_stdio() -> ProtocolFds:
    """Move the client's ends away from descriptors 0 and 1. Raises OSError when one of them is closed."""
    if sys.stdout is not None:
        sys.stdout.flush()
    _open_standard_error()
    taken = ProtocolFds(os.dup(0), os.dup(1))
    _put(os.open(os.devnull, os.O_RDONLY), 0)
    _put(os.dup(2), 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
    sys.stdout = sys.stderr
    _keep_bytes(taken)
    return taken


def _open_standard_error() -> None:
    """Fill descriptor 2 where the starter left it closed, or the client's end would land there."""
    try:
        os.fstat(2)
    except OSError:
        _put(os.open(os.devnull, os.O_WRONLY), 2)


def _put(source: int, target: int) -> None:
    """Make *source* the descriptor *target*, which children inherit."""
    if source == target:
        os.set_inheritable(target, True)
        return
    os.dup2(source, target)
    os.close(source)


def _keep_bytes(fds: ProtocolFds) -> None:
    """Stop Windows from turning LF into CR LF."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(fds.read_fd, os.O_BINARY)
        msvcrt.setmode(fds.write_fd, os.O_BINARY)

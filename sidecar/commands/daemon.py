"""Starts the daemon that a command talks to, and says in words why it cannot."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from sidecar.commands.interrupts import INTERRUPTED, ended_by_signals
from sidecar.commands.terminal import Screen
from sidecar_client import (
    ConnectionLost,
    PermissionHandler,
    SidecarClient,
    SidecarClientError,
    SidecarRequestError,
    reject,
)

__all__ = ["in_words", "print_json", "run_to_end", "run_with_daemon"]

_NEXT: Final = {
    "sessionNotFound": '"sidecar sessions" lists the stored ones',
    "compactionNotFound": "/compact makes one",
}
"""What to do next, where a user of the command line does something else than a client of the protocol."""


def run_with_daemon(
    main: Callable[[SidecarClient], Awaitable[int]],
    cwd: str | Path,
    *,
    permission: PermissionHandler = reject,
) -> int:
    """Run *main* with a client of a daemon of its own, and return its exit code."""
    folder = Path(cwd).expanduser()
    if not folder.is_dir():
        found = "that is no folder" if folder.exists() else "there is no such folder"
        Screen(sys.stderr).problem(
            f"sidecar: {cwd}: {found}; name one that exists, or leave it out to work here"
        )
        return 2

    async def work() -> int:
        async with SidecarClient.spawn(cwd=folder, permission=permission) as client:
            return await main(client)

    return run_to_end(work)


def run_to_end(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run *work* and return its exit code, that of a failure, or that of being told to end."""
    try:
        with ended_by_signals():
            return asyncio.run(work())
    except SidecarClientError as error:
        Screen(sys.stderr).problem(f"sidecar: {in_words(error)}")
        return 1
    except asyncio.CancelledError:
        return INTERRUPTED


def in_words(error: SidecarClientError) -> str:
    """Return what the user is told of *error*: what was asked, what was found, what to do next."""
    if isinstance(error, SidecarRequestError):
        hint = _NEXT.get(error.kind, error.hint)
        return f"{error.message}; {hint}" if hint else error.message
    if isinstance(error, ConnectionLost):
        return f'{error}\n"sidecar doctor" looks for the cause'
    return str(error)


def print_json(value: Mapping[str, Any]) -> None:
    """Write *value* as one line of JSON, which is UTF-8 wherever it goes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
    sys.stdout.buffer.flush()

"""Starts the daemon that a command talks to, and says in words why it cannot."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from sidecar.commands.terminal import Screen
from sidecar_client import PermissionHandler, SidecarClient, SidecarClientError, reject

__all__ = ["print_json", "run_with_daemon"]


def run_with_daemon(
    main: Callable[[SidecarClient], Awaitable[int]],
    cwd: str | Path,
    *,
    permission: PermissionHandler = reject,
) -> int:
    """Run *main* with a client of a daemon of its own, and return its exit code."""
    folder = Path(cwd).expanduser()
    if not folder.is_dir():
        Screen(sys.stderr).problem(f"{cwd}: no such folder")
        return 2

    async def work() -> int:
        async with SidecarClient.spawn(cwd=folder, permission=permission) as client:
            return await main(client)

    try:
        return asyncio.run(work())
    except SidecarClientError as error:
        Screen(sys.stderr).problem(str(error))
        return 1


def print_json(value: object) -> None:
    """Write *value* as one line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()

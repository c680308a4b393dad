"""``sidecar doctor``: what was found on this machine, and what to set where something is missing."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from sidecar import __version__
from sidecar._internal.env import env_name, indusagi_home
from sidecar.commands.daemon import run_with_daemon
from sidecar.commands.terminal import Screen
from sidecar_client import SidecarClient

__all__ = ["run"]

_PARTS = ("pygls", "lsprotocol", "cattrs", "watchfiles", "msgspec")


def run(options: argparse.Namespace) -> int:
    """Look around, start a daemon once, and return 0 when all is well."""
    screen = Screen()
    screen.table(
        ("", ""), [("sidecar", __version__), ("python", f"{platform.python_version()} ({sys.executable})")]
    )
    screen.table(("", ""), [(name, version(name)) for name in _PARTS])
    state_ok = _show_state(screen, indusagi_home())
    return 0 if _daemon_answers(screen) and state_ok else 1


def _show_state(screen: Screen, home: Path) -> bool:
    """Say where state lives and whether it can be written."""
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    writable = os.access(existing, os.W_OK)
    said = "can be written" if writable else f"cannot be written; set {env_name('home')} to a folder that can"
    screen.table(("", ""), [("state", f"{home} {said}")])
    return writable


def _daemon_answers(screen: Screen) -> bool:
    """Start a daemon and ask it how it is."""

    async def main(client: SidecarClient) -> int:
        status = await client.status()
        watch = status.watch.backend
        megabytes = status.rss_bytes / 1_000_000
        screen.table(("", ""), [("daemon", f"answers; {megabytes:.0f} MB, watches with {watch}")])
        screen.table(("", ""), [("model", "offline-1, built in; it finds and cites, it does not reason")])
        return 0

    return run_with_daemon(main, ".") == 0

"""``sidecar doctor``: what was found on this machine, and what to set where something is missing."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from sidecar import __version__
from sidecar._internal.env import env_name, indusagi_home
from sidecar.attach.errors import AttachError
from sidecar.attach.place import Place
from sidecar.commands.daemon import run_with_daemon
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.findings import look_around
from sidecar.protocol.messages import StatusResult
from sidecar_client import SidecarClient, SidecarClientError

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
    shared_ok = _show_shared(screen, Place(indusagi_home()))
    models_ok = _show_models(screen, indusagi_home())
    return 0 if _daemon_answers(screen) and state_ok and shared_ok and models_ok else 1


def _show_state(screen: Screen, home: Path) -> bool:
    """Say where state lives and whether it can be written."""
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    writable = os.access(existing, os.W_OK)
    said = "can be written" if writable else f"cannot be written; set {env_name('home')} to a folder that can"
    screen.table(("", ""), [("state", f"{home} {said}")])
    return writable


def _show_shared(screen: Screen, place: Place) -> bool:
    """Say whether a shared daemon runs; a place that cannot be trusted is not well."""

    async def ask() -> StatusResult:
        async with SidecarClient.connect(place.socket) as client:
            return await client.status()

    said = "none runs; sidecar serve --shared starts one"
    try:
        if place.exists():
            found = asyncio.run(ask())
            others = len(found.clients) - 1
            said = f"process {found.pid} at {place.socket}, version {found.version}, clients: {others}"
    except AttachError as error:
        screen.problem(str(error))
        return False
    except SidecarClientError:
        said = f"none answers at {place.socket}; sidecar serve --shared takes over"
    screen.table(("", ""), [("shared", said)])
    return True


def _show_models(screen: Screen, home: Path) -> bool:
    """Say which models can be asked from here, and what to set for others."""
    found = asyncio.run(look_around(home, Path.cwd()))
    for finding in found:
        if finding.is_well:
            screen.table(("", ""), [(finding.about, finding.said)])
        else:
            screen.problem(f"{finding.about}: {finding.said}")
    return all(finding.is_well for finding in found)


def _daemon_answers(screen: Screen) -> bool:
    """Start a daemon and ask it how it is."""

    async def main(client: SidecarClient) -> int:
        status = await client.status()
        watch = status.watch.backend
        megabytes = status.rss_bytes / 1_000_000
        screen.table(("", ""), [("daemon", f"answers; {megabytes:.0f} MB, watches with {watch}")])
        return 0

    return run_with_daemon(main, ".") == 0

"""``sidecar doctor``: what was found on this machine, and what to set where something is missing.

Shows where a key was found, never a key.
"""

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
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.commands.daemon import run_with_daemon
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.diagnostics import diagnose_models
from sidecar.protocol.messages import StatusResult
from sidecar_client import SidecarClient, SidecarClientError

if sys.platform == "win32":
    from sidecar.attach.loopback import is_answering

__all__ = ["run"]

_PARTS = ("pygls", "lsprotocol", "cattrs", "watchfiles", "msgspec", "rich")
_LABEL_CHARS = 13
_NONE = "none runs; sidecar serve --shared starts one"


def run(options: argparse.Namespace) -> int:
    """Look around, start a daemon once, and return 0 when all is well."""
    report = _Report(Screen())
    report.found("sidecar", __version__)
    report.found("python", f"{platform.python_version()}, {sys.executable}")
    report.found("parts", ", ".join(f"{name} {version(name)}" for name in _PARTS))
    try:
        home = indusagi_home()
    except RuntimeError as error:
        report.trouble("state", f"{error}; set {env_name('home')} to a folder")
        return 1
    _look_at_state(report, home)
    _look_at_models(report, home)
    _look_at_shared(report, DaemonPaths(home))
    _look_at_daemon(report)
    return 0 if report.is_well else 1


class _Report:
    """One line for everything that was looked at."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.is_well = True

    def found(self, what: str, said: str) -> None:
        """Tell what was found."""
        self._line(what, said, "")

    def trouble(self, what: str, said: str) -> None:
        """Tell what is not well, and what to do about it."""
        self.is_well = False
        self._line(what, said, "red")

    def _line(self, what: str, said: str, style: str) -> None:
        if self.screen.is_terminal:
            self.screen.line(f"{what:{_LABEL_CHARS}} {said}", style)
        else:
            self.screen.table(("", ""), [(what, said)])


def _look_at_state(report: _Report, home: Path) -> None:
    """Say where state lives and whether it can be written."""
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        report.found("state", f"{home}, can be written" if home == existing else f"{home}, made when needed")
    else:
        report.trouble("state", f"{home} cannot be written; set {env_name('home')} to a folder that can")


def _look_at_models(report: _Report, home: Path) -> None:
    """Say which models can be asked from here, and what to set for others."""
    for finding in asyncio.run(diagnose_models(home, Path.cwd())):
        tell = report.found if finding.is_well else report.trouble
        tell(finding.subject, finding.text)


def _look_at_shared(report: _Report, paths: DaemonPaths) -> None:
    """Say whether a shared daemon runs; a place that cannot be trusted is not well."""
    try:
        report.found("shared", _shared(paths))
    except AttachError as error:
        report.trouble("shared", str(error))
    except SidecarClientError:
        report.found("shared", f"none answers at {paths.socket}; sidecar serve --shared takes over")


if sys.platform == "win32":

    def _shared(paths: DaemonPaths) -> str:
        return f"one answers; {paths.tcp} says where" if is_answering(paths) else _NONE

else:

    def _shared(paths: DaemonPaths) -> str:
        async def ask() -> StatusResult:
            async with SidecarClient.connect(paths.socket) as client:
                return await client.status()

        if not paths.has_socket():
            return _NONE
        found = asyncio.run(ask())
        others = len(found.clients) - 1
        return f"process {found.pid} at {paths.socket}, version {found.version}, clients: {others}"


def _look_at_daemon(report: _Report) -> None:
    """Start a daemon and ask it how it is."""

    async def main(client: SidecarClient) -> int:
        status = await client.status()
        report.found("daemon", f"starts and answers; {status.rss_bytes / 1_000_000:.0f} MB")
        return 0

    if run_with_daemon(main, ".") != 0:
        report.trouble("daemon", "does not start; what it said is above")

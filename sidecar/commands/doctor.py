"""``sidecar doctor``: a report about this machine, with the settings that are missing.

It shows where a key was found, never the key.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sidecar import __version__
from sidecar._internal.env import env_name, indusagi_home, user_home_folder
from sidecar._internal.errors import SidecarError
from sidecar._internal.state_folder import close_state
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.boot import check_database
from sidecar.capabilities.sandbox import find_problem
from sidecar.commands.terminal import Screen
from sidecar.commands.with_daemon import run_to_end
from sidecar.conductor.content import COMMANDS
from sidecar.extensions.contract import Extensions
from sidecar.extensions.finding import ExtensionFinder
from sidecar.llmgateway.config import CONFIG_FILE, ModelSettings, read_settings
from sidecar.llmgateway.diagnostics import diagnose_models
from sidecar.llmgateway.live_check import ask_models
from sidecar.protocol.messages import StatusResult
from sidecar.workspace.files import real_path
from sidecar_client import SidecarClient, SidecarClientError

if sys.platform == "win32":
    from sidecar.attach.loopback import is_answering

_PARTS = ("pygls", "lsprotocol", "cattrs", "watchfiles", "msgspec", "psutil", "rich")
_LABEL_CHARS = 13
_NONE = "none is running; start one with: sidecar serve --shared"


def run(options: argparse.Namespace) -> int:
    """Report about the machine, start a daemon once, and return 0 when all is well."""
    report = _Report(Screen())
    report.add("sidecar", __version__)
    report.add("python", f"{platform.python_version()}, {sys.executable}")
    report.add("parts", ", ".join(map(describe_part, _PARTS)))
    try:
        home = indusagi_home()
    except RuntimeError as error:
        report.add("state", f"{error}; set {env_name('home')} to a folder", is_well=False)
        return 1
    # Not Path.exists, which raises for a folder inside one that cannot be entered.
    existing = next(folder for folder in (home, *home.parents) if os.path.exists(folder))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        hint = f"set {env_name('home')} to a folder that can"
        report.add("state", f"{home} cannot be written; {hint}", is_well=False)
    else:
        can_be_written = "can be written" if home == existing else "will be created when needed"
        report.add("state", f"{home}, {can_be_written}")
        n_closed, still_open = close_state(home)
        if n_closed:
            report.add(
                "privacy", f"others could read or enter {n_closed} files and folders there; now they cannot"
            )
        if still_open:
            text = (
                f"others can read or enter {still_open[0]}, and {len(still_open) - 1} more; make them yours"
            )
            report.add("privacy", text, is_well=False)
    for finding in asyncio.run(diagnose_models(home, Path.cwd())):
        report.add(finding.subject, finding.text, is_well=finding.is_well)
    if options.live:

        async def ask() -> None:
            async for finding in ask_models(home, Path.cwd()):
                report.add(finding.subject, finding.text, is_well=finding.is_well)

        asyncio.run(ask())
    settings = read_settings(home)
    if settings.compaction.names_off:
        names = ", ".join(settings.compaction.names_off)
        report.add("compaction", f"turned off in {home / CONFIG_FILE}: {names}")
    if settings.store is not None:
        try:
            where = "are stored there as well" if settings.store_checkpoints else "stay on this machine"
            report.add("sessions", f"{check_database(settings.store)}; copies of changed files {where}")
        except SidecarError as error:
            report.add("sessions", f"{error.message}; {error.hint}", is_well=False)
    if not settings.sandbox:
        report.add("sandbox", f"off; write sandbox = true in {home / CONFIG_FILE} for it")
    elif (problem := find_problem()) is None:
        report.add("sandbox", "on; commands have no network and write only in the folders of their session")
    else:
        text = f"asked for and not available, so that no command runs: {problem}"
        report.add("sandbox", text, is_well=False)
    for line in describe_found(find_extensions(home, settings, Path.cwd())):
        report.add("extensions", line)
    paths = DaemonPaths(home)
    try:
        report.add("shared", _describe_shared(paths))
    except AttachError as error:
        report.add("shared", str(error), is_well=False)
    except SidecarClientError:
        report.add("shared", f"none answers at {paths.socket}; sidecar serve --shared replaces it")

    async def check_daemon() -> int:
        try:
            async with SidecarClient.spawn(cwd=".") as client:
                status = await client.status()
        except SidecarClientError as error:
            report.add("daemon", f"does not start: {error}", is_well=False)
        else:
            report.add("daemon", f"starts and answers; {status.rss_bytes / 1_000_000:.0f} MB")
        return 0 if report.is_well else 1

    return run_to_end(check_daemon)


def find_extensions(home: Path, settings: ModelSettings, folder: Path) -> Extensions:
    """Return the extensions of a session in *folder*."""
    reserved = frozenset(command.name for command in COMMANDS)
    return ExtensionFinder(home, settings, user_home_folder(), reserved).find((real_path(folder),))


def describe_found(found: Extensions) -> Iterator[str]:
    """Yield a line for each kind of extension, and one for each that is left out."""
    kinds: dict[str, list[str]] = {
        "commands": [f"/{each.name}" for each in found.commands],
        "skills": [each.name for each in found.skills],
        "hooks": [each.event for each in found.hooks],
        "tool servers": [each.server.name for each in found.servers],
    }
    named = [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]
    yield "; ".join(named) if named else 'none; the guide\'s "Yours to extend" has the places'
    yield from found.problems


def describe_part(name: str) -> str:
    """Return the distribution *name* with its version, or that it is missing.

    >>> describe_part("no-such-part")
    'no-such-part is missing'
    """
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} is missing"


class _Report:
    """The lines of the report, printed as they are added."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.is_well = True

    def add(self, subject: str, finding: str, *, is_well: bool = True) -> None:
        """Print one finding; in red, if something must be done about it."""
        self.is_well = self.is_well and is_well
        if self.screen.is_terminal:
            self.screen.line(f"{subject:{_LABEL_CHARS}} {finding}", "" if is_well else "red")
        else:
            self.screen.table(("", ""), [(subject, finding)])


if sys.platform == "win32":

    def _describe_shared(paths: DaemonPaths) -> str:
        return f"one is running; {paths.tcp} names its port" if is_answering(paths) else _NONE

else:

    def _describe_shared(paths: DaemonPaths) -> str:
        async def request_status() -> StatusResult:
            async with SidecarClient.connect(paths.socket) as client:
                return await client.status()

        if not paths.has_socket():
            return _NONE
        found = asyncio.run(request_status())
        others = len(found.clients) - 1
        return f"process {found.pid} at {paths.socket}, version {found.version}, clients: {others}"

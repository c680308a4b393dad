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
from sidecar.attach.connecting import is_answering
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.capabilities.sandbox import find_problem
from sidecar.commands.terminal import Screen
from sidecar.commands.with_daemon import run_to_end
from sidecar.conductor.content import COMMANDS
from sidecar.extensions.contract import Extensions
from sidecar.extensions.finding import ExtensionFinder
from sidecar.llmgateway.config import CONFIG_FILE, read_settings
from sidecar.llmgateway.diagnostics import Diagnostic, ask_models, diagnose_models
from sidecar.protocol.messages import StatusResult
from sidecar.workspace.files import real_path
from sidecar_client import SidecarClient, SidecarClientError

_PARTS = ("pygls", "lsprotocol", "cattrs", "watchfiles", "msgspec", "psutil", "rich")
_LABEL_CHARS = 13
_NONE = "none is running; start one with: sidecar serve --shared"


def run(options: argparse.Namespace) -> int:
    """Report about the machine, start a daemon once, and return 0 when all is well."""
    report = _Report(Screen())
    report.add(Diagnostic("sidecar", __version__))
    report.add(Diagnostic("python", f"{platform.python_version()}, {sys.executable}"))
    report.add(Diagnostic("parts", ", ".join(map(describe_part, _PARTS))))
    try:
        home = indusagi_home()
    except RuntimeError as error:
        report.add(Diagnostic("state", f"{error}; set {env_name('home')} to a folder", is_well=False))
        return 1
    report.add(*check_state(home))
    report.add(*asyncio.run(diagnose_models(home, Path.cwd())))
    if options.live:

        async def ask() -> None:
            async for answered in ask_models(home, Path.cwd()):
                report.add(answered)

        asyncio.run(ask())
    report.add(*check_settings(home))
    report.add(check_shared(DaemonPaths(home)))

    async def check_daemon() -> int:
        try:
            async with SidecarClient.spawn(cwd=".") as client:
                status = await client.status()
        except SidecarClientError as error:
            report.add(Diagnostic("daemon", f"does not start: {error}", is_well=False))
        else:
            report.add(Diagnostic("daemon", f"starts and answers; {status.rss_bytes / 1_000_000:.0f} MB"))
        return 0 if report.is_well else 1

    code = run_to_end(check_daemon)
    if options.fix:
        from sidecar.commands.login import offer_missing

        offer_missing(report.screen, home)
    return code


def check_state(home: Path) -> Iterator[Diagnostic]:
    """Yield whether the state directory *home* can be written, and whether others can read in it."""
    # Not Path.exists, which raises for a folder inside one that cannot be entered.
    existing = next(folder for folder in (home, *home.parents) if os.path.exists(folder))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        hint = f"set {env_name('home')} to a folder that can"
        yield Diagnostic("state", f"{home} cannot be written; {hint}", is_well=False)
        return
    can_be_written = "can be written" if home == existing else "will be created when needed"
    yield Diagnostic("state", f"{home}, {can_be_written}")
    n_closed, still_open = close_state(home)
    if n_closed:
        text = f"others could read or enter {n_closed} files and folders there; now they cannot"
        yield Diagnostic("privacy", text)
    if still_open:
        text = f"others can read or enter {still_open[0]}, and {len(still_open) - 1} more; make them yours"
        yield Diagnostic("privacy", text, is_well=False)


def check_settings(home: Path) -> Iterator[Diagnostic]:
    """Yield the effects of the settings in *home*: on compactions, the store, the sandbox, extensions."""
    settings = read_settings(home)
    if settings.compaction.names_off:
        names = ", ".join(settings.compaction.names_off)
        yield Diagnostic("compaction", f"turned off in {home / CONFIG_FILE}: {names}")
    if settings.store is not None:
        from sidecar.boot import check_database  # not above: it loads a whole daemon

        try:
            where = "are stored there as well" if settings.store_checkpoints else "stay on this machine"
            yield Diagnostic("sessions", f"{check_database(settings.store)}; copies of changed files {where}")
        except SidecarError as error:
            yield Diagnostic("sessions", f"{error.message}; {error.hint}", is_well=False)
    if not settings.sandbox:
        yield Diagnostic("sandbox", f"off; write sandbox = true in {home / CONFIG_FILE} for it")
    elif (problem := find_problem()) is None:
        text = "on; commands have no network and write only in the folders of their session"
        yield Diagnostic("sandbox", text)
    else:
        text = f"asked for and not available, so that no command runs: {problem}"
        yield Diagnostic("sandbox", text, is_well=False)
    reserved = frozenset(command.name for command in COMMANDS)
    finder = ExtensionFinder(home, settings, user_home_folder(), reserved)
    for line in describe_found(finder.find((real_path(Path.cwd()),))):
        yield Diagnostic("extensions", line)


def check_shared(paths: DaemonPaths) -> Diagnostic:
    """Return whether a shared daemon of *paths* is running."""
    try:
        return Diagnostic("shared", _describe_shared(paths))
    except AttachError as error:
        return Diagnostic("shared", str(error), is_well=False)
    except SidecarClientError:
        return Diagnostic("shared", f"none answers at {paths.socket}; sidecar serve --shared replaces it")


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

    def add(self, *findings: Diagnostic) -> None:
        """Print *findings*; in red, if something must be done about one."""
        for found in findings:
            self.is_well = self.is_well and found.is_well
            if self.screen.is_terminal:
                line = f"{found.subject:{_LABEL_CHARS}} {found.text}"
                self.screen.line(line, "" if found.is_well else "red")
            else:
                self.screen.table(("", ""), [(found.subject, found.text)])


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

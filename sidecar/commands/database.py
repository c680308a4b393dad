"""``sidecar database init``: makes the tables of a database for sessions, as an administrator."""

from __future__ import annotations

import argparse
import sys

from sidecar._internal.errors import SidecarError
from sidecar.boot import init_database
from sidecar.commands.terminal import Screen


def run(options: argparse.Namespace) -> int:
    """Make the tables, or bring them up to date, and return the exit code."""
    screen = Screen(sys.stderr)
    try:
        screen.note(init_database(options.address, options.role))
    except SidecarError as error:
        screen.problem(f"sidecar database init: {error.message}", error.hint)
        return 1
    return 0

"""``sidecar export``: write a stored session as text, as JSON, or in the form of another agent."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sidecar._internal.env import expand_home
from sidecar.commands.sessions import SessionLookupError, find_session
from sidecar.commands.terminal import Screen
from sidecar.commands.with_daemon import print_text, run_with_daemon
from sidecar_client import SidecarClient


def run(options: argparse.Namespace) -> int:
    """Write the session and return the exit code."""
    path = None if options.out is None else str(expand_home(options.out).resolve())

    async def main(client: SidecarClient) -> int:
        notes = Screen(sys.stderr)
        try:
            found = await find_session(client, options.session, str(Path.cwd()))
        except SessionLookupError as error:
            notes.problem(f"sidecar export: {error}")
            return 2
        done = await client.session_export(
            found.sid,
            format=options.format,
            view="full" if options.all else "active",
            path=path,
        )
        if done.text is not None:
            print_text(done.text)
        else:
            notes.note(f"written to {done.path}")
        return 0

    return run_with_daemon(main, ".")

"""``sidecar panel``: serves the panel on the loopback interface, and opens the browser."""

from __future__ import annotations

import argparse
import asyncio
import sys
import webbrowser
from pathlib import Path

from sidecar.commands.terminal import Screen
from sidecar.commands.with_daemon import check_folder, print_text, run_to_end
from sidecar.panel import PanelServer


def run(options: argparse.Namespace) -> int:
    """Serve until no page is open any more; return the exit code."""
    if not check_folder(options.cwd):
        return 2
    folder = str(Path(options.cwd).expanduser().resolve())

    async def serve() -> int:
        command = (sys.executable, "-P", "-m", "sidecar", "serve", "--shared")
        async with PanelServer(command, folder, options.session) as server:
            screen = Screen(sys.stderr)
            is_shown = not options.no_open and await asyncio.to_thread(webbrowser.open, server.url)
            if not is_shown:
                print_text(f"{server.url}\n")
            screen.note("the panel stays until its page is closed; Ctrl-C ends it at once")
            await server.wait_unused()
        return 0

    return run_to_end(serve)

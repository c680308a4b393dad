"""``sidecar panel``: serves the panel on the loopback interface, and opens the browser."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp

from sidecar._internal.env import expand_home, indusagi_home
from sidecar.commands.terminal import Screen
from sidecar.commands.with_daemon import check_folder, print_text, run_to_end
from sidecar.panel.server import PanelServer


def run(options: argparse.Namespace) -> int:
    """Serve until no page is open any more; return the exit code."""
    if not check_folder(options.cwd):
        return 2
    folder = str(expand_home(options.cwd).resolve())

    async def serve() -> int:
        command = (sys.executable, "-P", "-m", "sidecar", "serve", "--shared")
        async with PanelServer(command, folder, options.session) as server:
            screen = Screen(sys.stderr)
            screen.note("the panel stays until its page is closed; Ctrl-C ends it at once")
            if options.no_open:
                print_text(f"{server.url}\n")
                await server.wait_unused()
                return 0
            with redirect_file(server.url) as page:
                if await asyncio.to_thread(webbrowser.open, page.as_uri()):
                    screen.note("no page in the browser? sidecar panel --no-open prints the address")
                else:
                    print_text(f"{server.url}\n")
                await server.wait_unused()
        return 0

    return run_to_end(serve)


@contextmanager
def redirect_file(url: str) -> Iterator[Path]:
    """Write a page that leads to *url*, which only this user can read, and delete it at the end.

    The command line of a browser is seen by every user of the machine, and *url* has the token.
    """
    home = indusagi_home()
    home.mkdir(parents=True, exist_ok=True)
    descriptor, name = mkstemp(prefix="panel-", suffix=".html", dir=home)  # of mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            script = f"location.replace({json.dumps(url)})"
            file.write(f"<!doctype html><title>sidecar</title><script>{script}</script>")
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)

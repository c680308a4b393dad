"""``sidecar chat``: a conversation in the terminal, or line by line in a pipe.

The daemon loads for longer than the terminal does. So its process is started first, and the terminal is
loaded meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from sidecar._internal.env import expand_home, read_env, read_raw


def run(options: argparse.Namespace) -> int:
    """Hold the conversation; return the exit code."""
    streams = (sys.stdin, sys.stdout)
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    if options.plain or not is_terminal or read_raw("TERM") == "dumb" or read_env("plain"):
        from sidecar.commands.talking.plain import run as run_plain

        return run_plain(options)
    from sidecar.commands.with_daemon import check_folder, run_to_end

    folder = expand_home(options.cwd).resolve()
    return run_to_end(lambda: talk_in_terminal(options, folder)) if check_folder(options.cwd) else 2


async def talk_in_terminal(options: argparse.Namespace, folder: Path) -> int:
    """Talk until the user leaves; return the exit code."""
    from sidecar.commands.with_daemon import make_client
    from sidecar.conductor.contract import (
        Elicitation,
        ElicitationAnswer,
        PermissionAnswer,
        PermissionRequest,
    )

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        return await talk.ask(request)

    async def elicit(form: Elicitation) -> ElicitationAnswer:
        return await talk.elicit(form)

    client = make_client(folder, {"permission": ask, "elicit": elicit})
    starting = asyncio.ensure_future(client.start())
    await asyncio.sleep(0)  # it starts the process of the daemon
    from sidecar.commands.talking.talk import Talk

    talk = Talk(options, folder, client, starting)
    return await talk.hold()

"""``sidecar run``: one prompt; the answer on standard output, everything else on standard error."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import AsyncIterator

from sidecar.commands.daemon import print_json, run_with_daemon
from sidecar.commands.live import TurnFailed, show_turn
from sidecar.commands.terminal import Screen
from sidecar_client import ClientEvent, SidecarClient, allow, reject

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Run the prompt and return 0 when it settled."""
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt

    async def main(client: SidecarClient) -> int:
        session = await client.start_session(options.cwd, model=options.model, engine=options.engine)
        events = session.stream(prompt)
        try:
            await show_turn(_printed(events) if options.json else events, _screen(quiet=options.json))
        except TurnFailed as error:
            Screen(sys.stderr).problem(str(error))
            return 1
        return 0

    return run_with_daemon(main, options.cwd, permission=allow if options.yes else reject)


async def _printed(events: AsyncIterator[ClientEvent]) -> AsyncIterator[ClientEvent]:
    async for event in events:
        print_json(dataclasses.asdict(event))
        yield event


def _screen(*, quiet: bool) -> Screen:
    if quiet:
        return Screen(sys.stderr)
    return Screen(sys.stdout, notes=sys.stderr)

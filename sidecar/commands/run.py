"""``sidecar run``: one prompt; the answer on standard output, everything else on standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from sidecar.commands.sessions import SessionLookupError, open_session
from sidecar.commands.terminal import Screen
from sidecar.commands.views import FaultedTurnError, StopTurn, show_turn
from sidecar.commands.with_daemon import INTERRUPTED, Interrupts, print_json, run_with_daemon
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import ClientEvent, SidecarClient, allow, reject

_EMPTY_PROMPT = """\
sidecar run: the prompt is empty; type a task, as in
  sidecar run "what is in README.md?"
  git diff | sidecar run "what does this change?" -"""


def run(options: argparse.Namespace) -> int:
    """Run the prompt and return the exit code, 0 when it was answered."""
    # Notes go to standard error, so that a pipe gets the answer alone.
    screen = Screen(sys.stderr) if options.json else Screen(sys.stdout, notes=sys.stderr)
    words = [word for word in options.prompt if word != "-"]
    piped = sys.stdin.read() if "-" in options.prompt and sys.stdin is not None else ""
    prompt = "\n\n".join(part for part in (" ".join(words), piped) if part)
    if not prompt.strip():
        screen.problem(_EMPTY_PROMPT)
        return 2

    folder = Path(options.cwd).expanduser().resolve()

    def refuse(request: PermissionRequest) -> PermissionAnswer:
        screen.note(f"· not allowed: {request.title}; --yes allows every request of a tool", "yellow")
        return reject(request)

    async def main(client: SidecarClient) -> int:
        try:
            session = await open_session(client, options, folder, screen)
        except SessionLookupError as error:
            screen.problem(f"sidecar run: {error}")
            return 2
        with Interrupts() as interrupts, interrupts.on_first(StopTurn(session, screen)):
            events = session.stream(prompt)
            try:
                settled = await show_turn(_print_events(events) if options.json else events, screen)
            except FaultedTurnError as error:
                screen.problem(f"sidecar: {error}")
                return 1
            if settled.data["stopReason"] == "cancelled":
                screen.note(f'stopped; "sidecar chat --resume {session.sid}" continues from here')
                return INTERRUPTED
            return 0

    return run_with_daemon(main, options.cwd, permission=allow if options.yes else refuse)


async def _print_events(events: AsyncIterator[ClientEvent]) -> AsyncIterator[ClientEvent]:
    """Yield *events*, each printed in its wire form."""
    async for event in events:
        turn = {"turnId": event.turn_id} if event.turn_id else {}
        head = {"sid": event.sid, "seq": event.seq, **turn, "at": event.at, "kind": event.kind}
        print_json({**head, "data": event.data})
        yield event

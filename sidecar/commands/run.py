"""``sidecar run``: one prompt; the answer on standard output, everything else on standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from sidecar.commands.daemon import print_json, run_with_daemon
from sidecar.commands.interrupts import INTERRUPTED, Interrupts
from sidecar.commands.live import Stop, TurnFailed, show_turn
from sidecar.commands.terminal import Screen
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import ClientEvent, Session, SidecarClient, allow, reject

__all__ = ["run"]

_EMPTY = """\
sidecar run: the prompt is empty; say what to do, as in
  sidecar run "what is in README.md?"
  git diff | sidecar run "what does this change?" -"""


def run(options: argparse.Namespace) -> int:
    """Run the prompt and return 0 when it settled."""
    # Notes on standard error: what is piped on is the answer alone.
    screen = Screen(sys.stderr) if options.json else Screen(sys.stdout, notes=sys.stderr)
    prompt = _prompt(options.prompt)
    if not prompt.strip():
        screen.problem(_EMPTY)
        return 2

    folder = Path(options.cwd).expanduser()

    async def main(client: SidecarClient) -> int:
        session = await client.start_session(folder, model=options.model, engine=options.engine)
        with Interrupts() as interrupts, interrupts.stopping(Stop(session, screen)):
            return await _answer(session, prompt, screen, as_json=options.json)

    permission = allow if options.yes else partial(_refuse, screen)
    return run_with_daemon(main, folder, permission=permission)


async def _answer(session: Session, prompt: str, screen: Screen, *, as_json: bool) -> int:
    events = session.stream(prompt)
    try:
        settled = await show_turn(_printed(events) if as_json else events, screen)
    except TurnFailed as error:
        screen.problem(f"sidecar: {error}")
        return 1
    if settled.data["stopReason"] == "cancelled":
        screen.note(f'stopped; "sidecar chat --resume {session.sid}" goes on from here')
        return INTERRUPTED
    return 0


def _prompt(words: list[str]) -> str:
    """Return *words* as one prompt, with standard input in place of a dash."""
    given = [word for word in words if word != "-"]
    piped = sys.stdin.read() if "-" in words and sys.stdin is not None else ""
    return "\n\n".join(part for part in (" ".join(given), piped) if part)


def _refuse(screen: Screen, request: PermissionRequest) -> PermissionAnswer:
    screen.note(f"· not allowed: {request.title}; --yes allows whatever the tools ask for", "yellow")
    return reject(request)


async def _printed(events: AsyncIterator[ClientEvent]) -> AsyncIterator[ClientEvent]:
    """Pass *events* on, each printed as the wire has it."""
    async for event in events:
        turn = {"turnId": event.turn_id} if event.turn_id else {}
        head = {"sid": event.sid, "seq": event.seq, **turn, "at": event.at, "kind": event.kind}
        print_json({**head, "data": event.data})
        yield event

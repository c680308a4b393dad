"""``sidecar sessions``: what is stored, the newest first."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from sidecar.commands.daemon import print_json, run_with_daemon
from sidecar.commands.stored import list_sessions
from sidecar.commands.terminal import Screen, short_path
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import SessionSummary
from sidecar_client import SidecarClient

__all__ = ["run"]

_MOST_SHOWN = 40
_ID_CHARS = 8
"""How much of an id is shown to somebody who looks; a script gets all of it."""


def run(options: argparse.Namespace) -> int:
    """List the sessions."""
    folder = None if options.cwd is None else str(Path(options.cwd).expanduser().resolve())

    async def main(client: SidecarClient) -> int:
        found = await list_sessions(client, folder, options.query)
        if options.json:
            for session in found:
                print_json(to_wire(session))
        else:
            _show(found, is_all=folder is None and options.query is None)
        return 0

    return run_with_daemon(main, "." if folder is None else folder)


def _show(found: list[SessionSummary], *, is_all: bool) -> None:
    screen = Screen()
    if not screen.is_terminal:
        screen.table([""] * 6, [_row(session) for session in found])
        return
    if not found:
        screen.note("no sessions yet; sidecar chat starts one" if is_all else "no session is like that")
        return
    headers = ("session", "last used", "turns", "tokens", "title", "folder")
    rows = [_row(session) for session in found[:_MOST_SHOWN]]
    here = Path.cwd()
    shown = [(sid[:_ID_CHARS], *rest, short_path(Path(cwd), here)) for sid, *rest, cwd in rows]
    screen.table(headers, shown, cut=(5, 4), drop=(5, 1, 2, 3))
    if len(found) > _MOST_SHOWN:
        screen.note(
            f"and {len(found) - _MOST_SHOWN} older ones; words of a title, --cwd . or a pipe find them"
        )
    screen.note("sidecar chat --resume SESSION goes on with one of them")


def _row(session: SessionSummary) -> tuple[str, ...]:
    used = datetime.fromtimestamp(session.updated_at / 1000, UTC).astimezone()
    return (
        session.sid,
        used.strftime("%Y-%m-%d %H:%M"),
        str(session.messages),
        f"{session.tokens:,}",
        session.title or "(untitled)",
        session.cwd,
    )

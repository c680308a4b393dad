"""``sidecar sessions``: what is stored, the newest first."""

from __future__ import annotations

import argparse
import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from sidecar.commands.daemon import print_json, run_with_daemon
from sidecar.commands.terminal import Screen
from sidecar.protocol.shapes import SessionSummary
from sidecar_client import SidecarClient

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """List the sessions."""
    folder = None if options.cwd is None else str(Path(options.cwd).expanduser().resolve())

    async def main(client: SidecarClient) -> int:
        cursor: str | None = None
        found: list[SessionSummary] = []
        while True:
            page = await client.session_list(cwd=folder, query=options.query, cursor=cursor)
            found.extend(page.sessions)
            cursor = page.next_cursor
            if cursor is None:
                break
        _show(found, as_json=options.json)
        return 0

    return run_with_daemon(main, ".")


def _show(found: list[SessionSummary], *, as_json: bool) -> None:
    if as_json:
        for session in found:
            print_json(dataclasses.asdict(session))
        return
    screen = Screen()
    if not found and screen.is_terminal:
        screen.note('no sessions yet; "sidecar chat" starts one')
    headers = ("session", "last used", "turns", "tokens", "title", "folder")
    screen.table(headers, [_row(session) for session in found])


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

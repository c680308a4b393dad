"""``sidecar import``: list the sessions of other agents on this machine, or import one of them."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from sidecar._internal.env import expand_home
from sidecar.commands.terminal import Screen, day_and_time, short_path
from sidecar.commands.with_daemon import print_json, run_with_daemon
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import ImportableSession, SessionImportReport
from sidecar_client import SidecarClient, SidecarRequestError

_MOST_SHOWN = 40
_MOST_LISTED = 1000
_LEAST_ID_CHARS = 8
_PROGRESS = "import"


def run(options: argparse.Namespace) -> int:
    """List the sessions or import one, and return the exit code."""
    if options.source is None:
        return run_with_daemon(lambda client: list_importable(client, options), ".")
    wanted: dict[str, Any] = {
        "source": options.format,
        "title": options.title,
        "model": options.model,
        "engine": options.engine,
        "cwd": None if options.cwd is None else str(expand_home(options.cwd).resolve()),
        "work_done_token": _PROGRESS,
    }
    path = expand_home(options.source)
    if os.path.exists(path) or len(path.parts) > 1:
        wanted |= {"path": str(path.resolve()), "id": options.id}
    else:
        wanted["id"] = options.source
    return run_with_daemon(lambda client: import_session(client, wanted, as_json=options.json), ".")


async def list_importable(client: SidecarClient, options: argparse.Namespace) -> int:
    """List the sessions of other agents and return the exit code."""
    screen = Screen()
    limit = _MOST_LISTED if options.json or not screen.is_terminal else _MOST_SHOWN
    here = str(Path.cwd())
    params = {"source": options.format, "cwd": options.cwd or here, "limit": limit}
    found = (await client.session_import(list_only=True, **params)).sessions or ()
    if options.json:
        for session in found:
            print_json(to_wire(session))
    elif found or not screen.is_terminal:
        show_sessions(screen, found)
    else:
        screen.note("no sessions of other agents in their usual places; name a file to import it")
    return 0


def show_sessions(screen: Screen, sessions: tuple[ImportableSession, ...]) -> None:
    """Write a line for each session; a pipe gets all members, with whole ids and paths."""
    rows = [
        (
            day_and_time(session.updated_at),
            session.cwd,
            str(session.size_bytes),
            session.source,
            session.id,
            session.title,
            session.path,
        )
        for session in sessions
    ]
    if not screen.is_terminal:
        screen.table([""] * 7, rows)
        return
    n_chars = count_distinct_chars([session.id for session in sessions])
    here = Path.cwd()
    shown = [
        (at, short_path(Path(cwd), here) if cwd else "?", f"{int(size):,}", form, key[:n_chars], title)
        for at, cwd, size, form, key, title, _ in rows
    ]
    headers = ("last used", "folder", "bytes", "agent", "session", "title")
    screen.table(headers, shown, cut=(5, 1), drop=(2, 5))
    screen.note("sidecar import SESSION imports one of them; its file stays as it is")


async def import_session(client: SidecarClient, wanted: dict[str, Any], *, as_json: bool) -> int:
    """Import the session that the params *wanted* name, and return the exit code."""
    notes = Screen(sys.stderr)
    notes.wait(f"importing {wanted['id'] or wanted['path']}")
    watching = asyncio.ensure_future(show_progress(client, notes))
    try:
        done = await client.session_import(**wanted)
    except SidecarRequestError as error:
        if wanted["cwd"] is not None or "folder" not in error.data.get("details", {}):
            raise
        # The recorded folder is gone, or the file names none.
        notes.note(f"{error.message}; going on in the current folder, --cwd names another")
        done = await client.session_import(**wanted | {"cwd": str(Path.cwd())})
    finally:
        watching.cancel()
    if as_json:
        print_json(to_wire(done))
    elif done.report is not None:
        show_import(Screen(), notes, str(done.sid), done.report)
    return 0


async def show_progress(client: SidecarClient, notes: Screen) -> None:
    """Show how much of a long file has been read, where someone can see it."""
    async for params in client.progress(_PROGRESS):
        value = params["value"]
        if notes.is_terminal and value["kind"] == "report":
            notes.wait(f"importing: {value.get('message', '')}, {value.get('percentage', 0)} %")


def show_import(screen: Screen, notes: Screen, sid: str, done: SessionImportReport) -> None:
    """Write the new session to *screen*, and the report to *notes*; a pipe gets only the id."""
    if not screen.is_terminal:
        screen.line(sid)
    else:
        screen.line(f"{done.title or '(untitled)'}: session {sid[:_LEAST_ID_CHARS]} in {done.cwd}")
    kinds = {"user": "prompts", "assistant": "answers", "tool": "tool results", "file": "files"}
    counts = [f"{done.entries[kind]:,} {name}" for kind, name in kinds.items() if done.entries.get(kind)]
    notes.note(f"· {', '.join(counts)}, {done.compactions:,} compactions; {done.tokens:,} tokens in view")
    if done.reads:
        notes.note(f"· {done.reads:,} file contents are known whole")
    for note in done.notes:
        notes.note(f"· {note.count:,} {note.reason}: {note.message}")
    notes.note(f"sidecar chat --resume {sid[:_LEAST_ID_CHARS]} continues it")


def count_distinct_chars(ids: list[str]) -> int:
    """Return how many characters tell *ids* apart, eight or more.

    >>> count_distinct_chars(["0199c1c2-aa", "0199c1c2-ab"])
    11
    """
    n_chars, longest = _LEAST_ID_CHARS, max(map(len, ids), default=0)
    while n_chars < longest and len({each[:n_chars] for each in ids}) < len(set(ids)):
        n_chars += 1
    return n_chars

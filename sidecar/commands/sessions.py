"""``sidecar sessions``: lists, searches, renames, copies and deletes stored sessions."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from sidecar._internal.env import expand_home
from sidecar.commands.terminal import Screen, day_and_time, is_typed_in, read_stdin, short_path
from sidecar.commands.with_daemon import print_json, run_with_daemon
from sidecar.conductor.contract import SessionSummary
from sidecar.protocol.codec import to_wire
from sidecar_client import Session, SidecarClient

_MOST_SHOWN = 40
_PAGE = 1_000
_ID_CHARS = 8
"""The length of an id in a terminal; a script gets all of it."""


class SessionLookupError(Exception):
    """No stored session matches, or more than one does; the message is for the user."""


def run(options: argparse.Namespace) -> int:
    """List the sessions and return the exit code."""
    if options.watch:
        return int(import_module("sidecar.commands.board").run(options))  # it draws in place
    if options.to is not None:
        from sidecar.commands import copy_sessions  # it knows the database

        return copy_sessions.run(options)
    if options.host is not None:
        from sidecar.commands import move_sessions  # so does it

        return move_sessions.run(options)
    folder = None if options.cwd is None else str(expand_home(options.cwd).resolve())
    if options.export or options.import_file:
        from sidecar.commands.arguments import parse

        name, value = ("export", options.export) if options.export else ("import", options.import_file)
        return int(import_module(f"sidecar.commands.{name}").run(parse([name, value])))

    async def main(client: SidecarClient) -> int:
        chosen = options.delete or (options.rename and options.rename[0])
        if chosen:
            try:
                session = await find_session(client, chosen, folder or str(Path.cwd()))
            except SessionLookupError as error:
                Screen(sys.stderr).problem(f"sidecar sessions: {error}")
                return 2
            return await change_session(client, session, options)
        found = await list_sessions(client, folder, options.query, options.search, children=options.children)
        if options.search is not None:
            return await search_sessions(client, found, options)
        if options.json:
            for session in found:
                print_json(to_wire(session))
        else:
            _show(found, is_all=folder is None and options.query is None)
        return 0

    return run_with_daemon(main, "." if folder is None else folder)


async def search_sessions(
    client: SidecarClient, sessions: Sequence[SessionSummary], options: argparse.Namespace
) -> int:
    """Show the sessions with all words of ``search`` in their conversations; 1 when there are none.

    Compacted turns count, too. Each session is shown as it is found, with the line that has most words.
    """
    words, screen, n_found = options.search.casefold().split(), Screen(), 0
    for session in sessions:
        text = (await client.session_export(session.sid, view="full")).text or ""
        folded = text.casefold()
        if not all(word in folded for word in words):
            continue
        n_found += 1
        lines = [" ".join(each.split()) for each in text.splitlines()]
        line = max(lines, key=lambda each: sum(word in each.casefold() for word in words))
        if options.json:
            print_json({**to_wire(session), "line": line})
        elif screen.is_terminal:
            screen.line(f"{session.sid[:_ID_CHARS]}  {session.title or '(untitled)'}", "bold")
            screen.cut_line(f"  {line}", "dim")
        else:
            screen.table([""] * 4, [(session.sid, session.title, session.cwd, line)])
    if not n_found:
        Screen(sys.stderr).note(f"no session has the words {options.search!r}")
    return 0 if n_found else 1


async def change_session(client: SidecarClient, session: SessionSummary, options: argparse.Namespace) -> int:
    """Rename or delete *session*, whichever of *options* is given, and return the exit code."""
    screen, title = Screen(sys.stderr), session.title or "(untitled)"
    if options.rename:
        await client.session_rename(session.sid, options.rename[1])
        screen.note(f"{session.sid[:_ID_CHARS]} is now: {options.rename[1]}")
    else:
        question = f"delete {title!r} of {session.messages} messages for good? [y]es, [N]o: "
        if not options.yes and not (is_typed_in() and await read_stdin().confirm(question)):
            screen.note(f"{title!r} stays; answer with y, or pass --yes")
            return 1
        await client.session_delete(session.sid)
        screen.note(f"deleted: {title}")
    return 0


async def list_sessions(
    client: SidecarClient,
    cwd: str | None = None,
    query: str | None = None,
    content: str | None = None,
    *,
    children: bool = False,
) -> list[SessionSummary]:
    """Return the stored sessions, the newest first.

    Args:
        client: a started client.
        cwd: only sessions of this folder; None for all.
        query: only sessions with these words in the title; None for all.
        content: only sessions with these words in the conversation; None for all.
        children: whether sub-agents are listed, too.
    """
    cursor: str | None = None
    found: list[SessionSummary] = []
    while True:
        page = await client.session_list(
            cwd=cwd, query=query, content=content, cursor=cursor, limit=_PAGE, children=children
        )
        found.extend(page.sessions)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def find_session(client: SidecarClient, wanted: str, cwd: str) -> SessionSummary:
    """Return one stored session.

    Args:
        client: a started client.
        wanted: the start of its id, or "last" for the newest session of a folder.
        cwd: that folder.

    Raises:
        SessionLookupError: no session matches, or more than one does.
    """
    if wanted == "last":
        found = [*(await client.session_list(cwd=cwd, limit=1)).sessions]
    else:
        stored = await list_sessions(client, children=True)
        found = [each for each in stored if each.sid.startswith(wanted)]
    if not found:
        where = f"was used in {cwd}" if wanted == "last" else f"begins with {wanted!r}"
        raise SessionLookupError(f'no stored session {where}; "sidecar sessions" lists them')
    if len(found) > 1:
        ids = ", ".join(each.sid[:12] for each in found[:4])
        raise SessionLookupError(f"{len(found)} sessions begin with {wanted!r}: {ids}; type more of the id")
    return found[0]


async def open_session(
    client: SidecarClient, options: argparse.Namespace, folder: Path, screen: Screen
) -> Session:
    """Start a session in *folder* or load a stored one, with the settings of *options*.

    Args:
        client: a started client.
        options: the command's; ``resume`` names the stored session, None for a new one.
        folder: the folder to work in, resolved.
        screen: receives a note about the stored session.

    Raises:
        SessionLookupError: there is no such session, or more than one.
    """
    chosen = {"permissions": options.permissions}
    if options.resume is None:
        new = await client.session_new(
            cwd=str(folder),
            model=options.model,
            engine=options.engine,
            ephemeral=options.command == "run" and options.ephemeral,
        )
        session = Session(client, new.sid, new.seq)
    else:
        found = await find_session(client, options.resume, str(folder))
        # The folder of a session from another machine may not be here: it goes on in this one.
        is_here = await asyncio.to_thread(os.path.isdir, found.cwd)
        loaded = await client.session_load(found.sid, cwd=None if is_here else str(folder))
        session = Session(client, found.sid, loaded.seq)
        chosen |= {"model": options.model, "engine": options.engine}
    for option, value in chosen.items():
        if value is not None:
            await client.session_set_config_option(session.sid, option, value)
    if options.resume is None:
        return session
    screen.note(f"continues: {found.title or '(untitled)'}")
    return session


async def read_commands(session: Session) -> Sequence[Mapping[str, Any]]:
    """Return the daemon's commands.

    They come with each load. Where another client has the session open, they have the number 0 and follow the
    answer, so that only a reader from before the load is sure to see them.
    """
    events = session.client.events(session.sid)
    await session.client.session_load(session.sid)
    async for event in events:
        if event.kind == "commandsChanged":
            return event.data["commands"]  # type: ignore[no-any-return]  # JSON
    return ()


def _with_children(found: Sequence[SessionSummary]) -> list[tuple[str, SessionSummary]]:
    """Return each session with its title, and its sub-agents below it."""
    listed = {each.sid for each in found}
    rows: dict[str | None, list[tuple[str, SessionSummary]]] = {}
    for session in found:
        is_child = session.kind is not None and session.parent in listed
        title = session.title or "(untitled)"
        rows.setdefault(session.parent if is_child else None, []).append(
            (f"- {title}" if is_child else title, session)
        )
    return [row for own in rows.get(None, ()) for row in (own, *rows.get(own[1].sid, ()))]


def _show(found: list[SessionSummary], *, is_all: bool) -> None:
    screen = Screen()
    rows = [
        (
            session.sid,
            day_and_time(session.updated_at),
            str(session.messages),
            f"{session.tokens:,}",
            title,
            session.cwd,
        )
        for title, session in _with_children(found)
    ]
    if not screen.is_terminal:
        screen.table([""] * 6, rows)
        return
    if not found:
        screen.note("no sessions yet; sidecar chat starts one" if is_all else "no session matches")
        return
    headers = ("session", "last used", "messages", "tokens", "title", "folder")
    here = Path.cwd()
    shown = [(sid[:_ID_CHARS], *rest, short_path(Path(cwd), here)) for sid, *rest, cwd in rows[:_MOST_SHOWN]]
    screen.table(headers, shown, cut=(5, 4), drop=(5, 1, 2, 3))
    if len(found) > _MOST_SHOWN:
        screen.note(
            f"and {len(found) - _MOST_SHOWN} older ones; words of a title, --cwd . or a pipe find them"
        )
    screen.note("sidecar chat --resume SESSION continues one of them; --help has more")

"""Finds stored sessions: all of a list, and the one that somebody means."""

from __future__ import annotations

from sidecar.protocol.messages import SessionSummary
from sidecar_client import SidecarClient

__all__ = ["NoSuchSession", "find_session", "list_sessions"]


class NoSuchSession(Exception):
    """No stored session, or more than one, is meant; its text says what was found."""


async def list_sessions(
    client: SidecarClient, cwd: str | None = None, query: str | None = None
) -> list[SessionSummary]:
    """Return the stored sessions, the newest first: all, those of the folder *cwd*, those titled so."""
    cursor: str | None = None
    found: list[SessionSummary] = []
    while True:
        page = await client.session_list(cwd=cwd, query=query, cursor=cursor)
        found.extend(page.sessions)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def find_session(client: SidecarClient, wanted: str, cwd: str) -> SessionSummary:
    """Return the session whose id begins with *wanted*; the newest of the folder *cwd* for "last".

    Raises NoSuchSession.
    """
    if wanted == "last":
        found = (await list_sessions(client, cwd))[:1]
    else:
        found = [each for each in await list_sessions(client) if each.sid.startswith(wanted)]
    if not found:
        where = f"was used in {cwd}" if wanted == "last" else f"begins with {wanted!r}"
        raise NoSuchSession(f'no stored session {where}; "sidecar sessions" lists them')
    if len(found) > 1:
        ids = ", ".join(each.sid[:12] for each in found[:4])
        raise NoSuchSession(f"{len(found)} sessions begin with {wanted!r}: {ids}; say more of its id")
    return found[0]

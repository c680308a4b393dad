"""``sidecar sessions copy``: copies sessions between files and a database, and reads each copy back."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sidecar._internal.env import indusagi_home
from sidecar._internal.errors import SidecarError
from sidecar.boot import place_of_sessions
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.config import read_settings
from sidecar.runtime.store import SessionPlace, SessionStore
from sidecar.workspace.kept_contents import KeptContents

if TYPE_CHECKING:
    from sidecar.runtime.store.postgres.store import PostgresStore

CopyOutcome: TypeAlias = Literal["copied", "continued", "there", "differs"]
"""It was copied; its new records were added to an older copy; the same is there; something else is there."""

Place: TypeAlias = "SessionStore | PostgresStore"

FILES: Final = "files"
_SCHEMES: Final = ("postgresql://", "postgres://")
_WORDS: Final[dict[CopyOutcome, str]] = {
    "copied": "copied",
    "continued": "brought up to date",
    "there": "there already",
    "differs": "left alone, because another session of that id is there",
}


class CopyDiffersError(SidecarError):
    """The copy of a session differs from the session."""

    kind = "storeUnavailable"
    retryable = True


def run(options: argparse.Namespace) -> int:
    """Copy every session and return 0 when each is in both places."""
    screen, home = Screen(sys.stderr), indusagi_home()
    settings, contents = read_settings(home), KeptContents(home)
    source = options.source or settings.store or FILES
    problem = ""
    if any(each != FILES and not each.startswith(_SCHEMES) for each in (source, options.to)):
        problem = f'a place is "{FILES}", or an address that begins with {_SCHEMES[0]}'
    elif source == options.to:
        problem = "the sessions are there already; choose another --to"
    if problem:
        screen.problem(f"sidecar sessions copy: {problem}")
        return 2
    try:
        places = [place_of_sessions(home, None if each == FILES else each) for each in (source, options.to)]
        for place in places:
            if settings.store_checkpoints and not isinstance(place, SessionStore):
                place.find_content = contents.find
        return asyncio.run(_copy_all(places[0], places[1], contents, screen))
    except SidecarError as error:
        screen.problem(f"sidecar sessions copy: {error.message}", error.hint)
        return 1


async def _copy_all(source: Place, target: Place, contents: KeptContents, screen: Screen) -> int:
    outcomes: Counter[CopyOutcome] = Counter()
    n_failed = 0
    try:
        await target.exists("-")  # one that cannot be reached is one failure, not one a session
        for summary in await source.summaries():
            try:
                sid = summary.session_id
                outcomes[await copy_session(source, target, sid)] += 1
                if isinstance(target, SessionStore) and not isinstance(source, SessionStore):
                    records = (await target.open(sid)).records
                    await asyncio.to_thread(fetch_contents, source, contents, sid, records)
            except SidecarError as error:
                n_failed += 1
                screen.problem(f"{summary.session_id}: {error.message}")
    finally:
        await target.aclose()
        await source.aclose()
    for outcome, words in _WORDS.items():
        if outcomes[outcome]:
            screen.note(f"{outcomes[outcome]} {words}")
    if n_failed:
        screen.note(f"{n_failed} failed; the same command goes on with them")
    return 1 if n_failed or outcomes["differs"] else 0


def fetch_contents(
    source: PostgresStore, contents: KeptContents, sid: str, records: Sequence[Mapping[str, Any]]
) -> None:
    """Keep the contents of changed files here that *records* of *sid* name and *source* has."""
    names = {each.get("content") for each in records if each.get("type") == "checkpoint"}
    for name in names:
        if isinstance(name, str) and contents.find(sid, name) is None:
            content = source.read_content(sid, name)
            if content is not None:
                contents.keep(sid, content)


async def copy_session(source: SessionPlace, target: SessionPlace, session_id: str) -> CopyOutcome:
    """Copy *session_id*, which stays in *source*; another session of its id in *target* is left as it is.

    Nobody may write it meanwhile, in either place. A copy that was broken off is continued by the next one.

    Raises:
        SessionLockedError: somebody has it open, here or there.
        StoreUnavailable: a place does not answer.
        CopyDiffersError: the copy is there and differs.
    """
    held = await source.hold(session_id)
    try:
        records = await source.read_raw(session_id)
        held_there = await target.hold(session_id)
        try:
            return await write_missing(records, target, session_id)
        finally:
            target.close(session_id)
            held_there.release()
    finally:
        held.release()


async def write_missing(records: bytes, target: SessionPlace, session_id: str) -> CopyOutcome:
    """Append the lines of *records* that *target* has not, and read all of them back."""
    lines, there = _split(records), _split(await target.read_raw(session_id))
    if there == lines:
        return "there"
    if there != lines[: len(there)]:
        return "differs"
    for piece in split_lines(lines[len(there) :]):
        await target.write_raw(session_id, piece)
    if _split(await target.read_raw(session_id)) != lines:
        raise CopyDiffersError(f"the copy of session {session_id!r} is not what was written", sid=session_id)
    return "continued" if there else "copied"


def split_lines(lines: Sequence[bytes], n_bytes: int = 4_000_000) -> Iterator[bytes]:
    """Yield *lines* in pieces of about *n_bytes*, so that a slow network brings each of them in time.

    >>> [*split_lines([b"a", b"bb", b"c"], 2)]
    [b'abb', b'c']
    """
    piece = bytearray()
    for line in lines:
        piece += line
        if len(piece) >= n_bytes:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _split(records: bytes) -> list[bytes]:
    return records.splitlines(keepends=True)

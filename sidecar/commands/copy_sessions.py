"""``sidecar sessions copy``: copies sessions between files and a database, and reads each copy back."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sidecar._internal.env import indusagi_home
from sidecar._internal.errors import SidecarError
from sidecar.boot import place_of_sessions
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.config import read_settings
from sidecar.runtime.store import SessionStore
from sidecar.runtime.store.copying import CopyOutcome, copy_session
from sidecar.workspace.kept_contents import KeptContents

if TYPE_CHECKING:
    from sidecar.runtime.store.postgres.store import PostgresStore

Place: TypeAlias = "SessionStore | PostgresStore"

FILES: Final = "files"
_SCHEMES: Final = ("postgresql://", "postgres://")
_WORDS: Final[dict[CopyOutcome, str]] = {
    "copied": "copied",
    "continued": "brought up to date",
    "there": "there already",
    "differs": "left alone, because another session of that id is there",
}


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
        screen.problem(f"sidecar sessions copy: {error.message}; {error.hint}")
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

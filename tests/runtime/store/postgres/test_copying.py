"""Copies between files and a database: all there, in order, and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store import SessionPlace, SessionStore
from sidecar.runtime.store.copying import CopyDiffersError, copy_session

if TYPE_CHECKING:
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]


async def write(place: SessionPlace, sid: str, *texts: str) -> None:
    held = await place.hold(sid)
    journal = place.journal(sid)
    await journal.load()
    journal.hold()
    await journal.append([Entry(UserTurn((TextBlock(text),)), "user") for text in texts])
    await journal.append_records([{"type": "meta", "title": texts[-1]}])
    await journal.release()
    place.close(sid)
    held.release()
    await place.settle()


async def test_a_session_goes_to_the_database_and_back(
    tmp_path: Path, make_store: Callable[..., PostgresStore]
) -> None:
    files, database, back = SessionStore(tmp_path / "a"), make_store(), SessionStore(tmp_path / "b")
    await write(files, "s", "one", "two")
    assert await copy_session(files, database, "s") == "copied"
    assert await copy_session(files, database, "s") == "there"
    await write(files, "s", "three")
    assert await copy_session(files, database, "s") == "continued"
    assert await copy_session(database, back, "s") == "copied"
    first, last = await files.open("s"), await back.open("s")
    assert (first.graph.nodes, first.graph.leaf) == (last.graph.nodes, last.graph.leaf)
    assert (first.graph.entries, first.records) == (last.graph.entries, last.records)
    await write(database, "s", "theirs")
    await write(files, "s", "ours")
    assert await copy_session(files, database, "s") == "differs"


async def test_a_copy_that_is_not_what_was_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, other = SessionStore(tmp_path / "a"), SessionStore(tmp_path / "b")
    await write(files, "s", "one")

    async def lose_a_line(session_id: str, lines: bytes) -> None:
        await SessionStore.write_raw(other, session_id, lines.split(b"\n", 1)[1])

    monkeypatch.setattr(other, "write_raw", lose_a_line)
    with pytest.raises(CopyDiffersError):
        await copy_session(files, other, "s")

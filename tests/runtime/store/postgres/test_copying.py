"""Copies between files and a database: all there, in order, and read back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moved_sessions import Move
from shared_database import shown
from sidecar.cli import main
from sidecar.commands.copy_sessions import CopyDiffersError, copy_session
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store import SessionPlace, SessionStore
from sidecar.runtime.store.codec import encode_line
from sidecar.workspace.kept_contents import KeptContents

if TYPE_CHECKING:
    from postgres_server import PostgresServer
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


@pytest.mark.parametrize("are_stored", [True, False], ids=["stored", "local"])
def test_the_command_copies_contents_of_changed_files_where_the_user_lets_it(
    tmp_path: Path, server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, are_stored: bool
) -> None:
    address, homes = server.conninfo("ann", database), [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
        (home / "config.toml").write_text(f"store_checkpoints = {str(are_stored).lower()}\n")
    name = KeptContents(homes[0]).keep("s", b"before")

    async def make() -> None:
        files = SessionStore(homes[0] / "sessions")
        await write(files, "s", "one")
        for record in ({"type": "checkpoint", "content": name}, {"type": "checkpoint"}):
            await files.write_raw("s", encode_line(record))

    asyncio.run(make())
    for home, source, to in ((homes[0], "files", address), (homes[1], address, "files")):
        monkeypatch.setenv("INDUSAGI_HOME", str(home))
        assert main(["sessions", "copy", "--from", source, "--to", to]) == 0
    assert asyncio.run(shown(SessionStore(homes[1] / "sessions"))) == ["one"]
    assert KeptContents(homes[1]).find("s", name) == (b"before" if are_stored else None)
    assert len(server.execute("SELECT id FROM sidecar.contents", database)) == are_stored


def test_a_session_moves_to_a_machine_with_a_database_and_back(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for home in (here, there):
        home.mkdir()
    (there / "config.toml").write_text(
        f'store = "{server.conninfo("ann", database)}"\nstore_checkpoints = true\n'
    )
    name = KeptContents(here).keep("s", b"before")

    async def make() -> None:
        files = SessionStore(here / "sessions")
        await write(files, "s", "one")
        await files.write_raw("s", encode_line({"type": "checkpoint", "content": name}))

    asyncio.run(make())
    assert Move(here, there).given == ("s", "one", "send")
    assert len(server.execute("SELECT id FROM sidecar.contents", database)) == 1
    assert Move(here, there).given == ("s", "one", "there")
    asyncio.run(write(SessionStore(here / "sessions"), "s", "two"))
    assert Move(here, there).given == ("s", "two", "send")
    back = tmp_path / "back"
    assert Move(there, back).taken == ("s", "two", "send")
    assert asyncio.run(shown(SessionStore(back / "sessions"))) == ["one", "two"]
    assert KeptContents(back).find("s", name) == b"before"


@pytest.mark.parametrize(
    ("to", "problem", "code"),
    [
        pytest.param("files", "the sessions are there already", 2, id="the same"),
        pytest.param("/tmp/x", 'a place is "files", or an address', 2, id="no place"),
        pytest.param("postgresql://ann@127.0.0.1:9/d", "the database does not answer", 1, id="no server"),
    ],
)
def test_a_copy_to_nowhere_is_one_failure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    to: str,
    problem: str,
    code: int,
) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    for sid in ("a", "b", "c"):
        asyncio.run(write(SessionStore(tmp_path / "sessions"), sid, "one"))
    assert main(["sessions", "copy", "--from", "files", "--to", to]) == code
    assert capsys.readouterr().err.count(problem) == 1


async def test_a_long_session_is_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, other = SessionStore(tmp_path / "a"), SessionStore(tmp_path / "b")
    await write(files, "s", *["x" * 1_000_000] * 9)
    pieces: list[int] = []

    async def write_raw(session_id: str, lines: bytes) -> None:
        pieces.append(len(lines))
        await SessionStore.write_raw(other, session_id, lines)

    monkeypatch.setattr(other, "write_raw", write_raw)
    assert await copy_session(files, other, "s") == "copied"
    assert len(pieces) == 3

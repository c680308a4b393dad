"""The hub: forks, titles, archive, removal, reading without loading, and notifications of its clients."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fake_client import FakeClient
from long_talks import emitted, open_session
from sidecar._internal.errors import SidecarError
from sidecar.boot import build
from sidecar.capabilities.read import READ
from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.errors import FolderNotFound, NodeNotFound, SessionNotFound, TooManySessionsError
from sidecar.conductor.events import InfoChanged
from sidecar.conductor.hub import ForkOf, NewSession
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import Usage, UsageEmission
from sidecar.llmgateway.scripted import Call, Say
from sidecar.runtime.store import SessionJournal, lines
from sidecar.runtime.store.errors import StoreUnavailable
from sidecar.runtime.store.lines import LineWriter
from sidecar.workspace.paths import path_to_uri
from turns import text


async def a_talk(make_stage: Any, **wanted: Any) -> tuple[Any, Session]:
    script = [[Call("read", {"path": "a.py"})], [Say("read"), UsageEmission(Usage(90, 9))], [Say("two")]]
    stage = await make_stage(script, tools=[READ], repeat=True)
    stage.workspace.put(stage.folder / "a.py", "x = 1\n")
    session = await stage.session(**wanted)
    for prompt in ("one", "two"):
        await stage.ask(session, prompt)
    return stage, session


async def summary(stage: Any, sid: str) -> Any:
    (found,) = [each for each in await stage.hub.list() if each.sid == sid]
    return found


async def test_a_fork_continues_from_the_head_and_does_not_change_the_original(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage, title="Parser")
    await session.choose("permissions", "allowAll")
    before = session.snapshot()
    forked = await stage.hub.fork(ForkOf(session.sid))
    assert list(forked.record.history.turns) == list(session.record.history.turns)
    assert (forked.info.parent, forked.info.title, forked.info.cwd) == (session.sid, "Parser", before.cwd)
    assert (forked.window.request.usage().session_total, forked.record.log.seq) == (TokenCounts(0, 0), 0)
    assert forked.turns.options.all()[3].current_value == "ask"
    assert [file.uri for file in await forked.workbench.files.list_in_context()] == [
        file.uri for file in await session.workbench.files.list_in_context()
    ]
    assert session.snapshot() == before
    await stage.ask(forked, "three")
    assert (len(list(forked.record.history.turns)), len(list(session.record.history.turns))) == (8, 6)


async def test_a_fork_is_stored_from_its_first_moment(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    forked = await stage.hub.fork(ForkOf(session.sid, title="Other way"))
    stored = await stage.shelf.graph(forked.sid)
    assert [entry.turn for entry in stored.entry_path(stored.leaf)] == list(session.record.history.turns)
    titles = {each.sid: each.title for each in await stage.shelf.list()}
    assert titles[forked.sid] == "Other way"


async def test_a_fork_may_begin_at_an_earlier_node_and_in_another_folder(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    other = stage.folder / "sub"
    other.mkdir()
    first = session.record.history.current.node_ids[0]
    forked = await stage.hub.fork(ForkOf(session.sid, first, cwd=str(other), roots=(str(stage.folder),)))
    assert (list(forked.record.history.turns), forked.info.cwd) == (
        list(session.record.history.turns)[:1],
        str(other),
    )
    assert forked.info.roots == (str(stage.folder),)
    assert await forked.workbench.files.list_in_context() == (), "what its turns never read it has not read"


async def test_a_stored_session_is_forked_without_loading_it(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    turns = list(session.record.history.turns)
    await stage.hub.close(session.sid)
    forked = await stage.hub.fork(ForkOf(session.sid))
    assert list(forked.record.history.turns) == turns
    assert len(await forked.workbench.files.list_in_context()) == 1


async def test_a_fork_of_an_empty_session_is_empty(make_stage: Any) -> None:
    stage, session = await open_session(make_stage)
    forked = await stage.hub.fork(ForkOf(session.sid))
    assert (list(forked.record.history.turns), forked.info.parent) == ([], session.sid)


async def test_a_fork_of_an_ephemeral_session_is_ephemeral(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage, ephemeral=True)
    forked = await stage.hub.fork(ForkOf(session.sid))
    assert forked.info.ephemeral
    assert list(forked.record.history.turns) == list(session.record.history.turns)
    assert await stage.shelf.list() == []


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (lambda sid: ForkOf("nobody"), SessionNotFound),
        (lambda sid: ForkOf(sid, "nowhere"), NodeNotFound),
        (lambda sid: ForkOf(sid, cwd="relative"), FolderNotFound),
    ],
    ids=["an unknown session", "an unknown node", "a folder that is none"],
)
async def test_a_fork_of_an_unknown_session_or_node_is_refused(
    make_stage: Any, wanted: Any, error: type[Exception]
) -> None:
    stage, session = await a_talk(make_stage)
    with pytest.raises(error):
        await stage.hub.fork(wanted(session.sid))
    assert stage.hub.sessions == (session,)


@pytest.mark.parametrize("loaded", [True, False], ids=["in memory", "stored"])
async def test_title_and_archive_change_whether_a_session_is_loaded_or_not(
    make_stage: Any, loaded: bool
) -> None:
    stage, session = await a_talk(make_stage)
    updated_at = session.info.updated_at
    if not loaded:
        await stage.hub.close(session.sid)
    await stage.hub.amend(session.sid, lambda info: replace(info, title="Parser", archived=True))
    found = await summary(stage, session.sid)
    assert (found.title, found.archived, found.updated_at) == ("Parser", True, updated_at)
    (listed,) = await stage.shelf.list()
    assert (listed.title, listed.archived) == ("Parser", True)
    if loaded:
        told = emitted(session, InfoChanged)
        assert told[-1] == InfoChanged("Parser", updated_at, True)


@pytest.mark.parametrize("loaded", [True, False], ids=["in memory", "stored"])
async def test_a_deleted_session_is_gone(make_stage: Any, loaded: bool) -> None:
    stage, session = await a_talk(make_stage)
    if not loaded:
        await stage.hub.close(session.sid)
    await stage.hub.delete(session.sid)
    assert (await stage.hub.list(), stage.hub.sessions) == ([], ())
    for gone in (stage.hub.load, stage.hub.delete, stage.hub.graph, stage.hub.info, stage.hub.compactions):
        with pytest.raises(SessionNotFound):
            await gone(session.sid)


async def test_an_ephemeral_session_can_be_read_and_deleted(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage, ephemeral=True)
    graph = await stage.hub.graph(session.sid)
    assert [entry.turn for entry in graph.entries.values()] == list(session.record.history.turns)
    await stage.hub.delete(session.sid)
    assert stage.hub.sessions == ()


async def test_a_stored_session_is_read_without_loading_it(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    ids = tuple(session.record.history.current.node_ids)
    await stage.hub.close(session.sid)
    graph = await stage.hub.graph(session.sid)
    assert (tuple(entry.node_id for entry in graph.entry_path(graph.leaf)), stage.hub.sessions) == (ids, ())
    assert (await stage.hub.info(session.sid)).title == "one"
    assert await stage.hub.compactions(session.sid) == ()


async def test_every_client_is_notified_when_the_list_changes(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    client = FakeClient()
    stage.hub.audience.join(client)
    counts = []
    for change in (
        stage.hub.fork_of(session.sid),
        stage.hub.amend(session.sid, lambda info: replace(info, title="x")),
        stage.hub.close(session.sid),
        stage.hub.delete(session.sid),
    ):
        client.n_list_changes = 0
        await change
        counts.append(client.n_list_changes)
    assert counts == [1, 1, 1, 1]
    stage.hub.audience.leave(client)
    await stage.session()
    assert client.n_list_changes == 1


def n_in_memory(*kinds: type[Any]) -> int:
    gc.collect()
    return sum(type(each) in kinds for each in gc.get_objects())


async def test_a_session_that_is_closed_or_deleted_is_let_go(tmp_path: Path) -> None:
    """Its journal, with the whole conversation, once stayed in memory for as long as the daemon ran."""
    kinds = (Session, SessionJournal, LineWriter, EventLog)
    before = n_in_memory(*kinds)
    daemon = build(tmp_path / "home")
    hub = daemon.service.hub
    session = await hub.new(NewSession(str(tmp_path), model="offline-1"))
    await (await session.submit(({"type": "text", "text": "hello"},))).outcome
    sids = [session.sid, (await hub.fork(ForkOf(session.sid))).sid]
    del session
    await hub.close(sids[0])
    await hub.delete(sids[1])
    assert n_in_memory(*kinds) == before
    await daemon.service.aclose()


async def test_sessions_in_memory_are_bounded(make_stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has an open file, and without files the daemon would serve nobody."""
    monkeypatch.setattr("sidecar.conductor.hub.MAX_LOADED", 2)
    stage = await make_stage()
    first, _ = await stage.session(), await stage.session()
    with pytest.raises(TooManySessionsError, match="keeps no more"):
        await stage.session()
    await stage.hub.close(first.sid)
    await stage.session()


async def test_a_long_title_is_cut(make_stage: Any) -> None:
    """Every list and many events carry it."""
    stage, session = await open_session(make_stage, title="x" * 5_000)
    await stage.hub.amend(session.sid, lambda info: replace(info, title="y" * 5_000))
    assert session.info.title == "y" * 1_000


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no session file grow meanwhile."""

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "append_lines", refuse)
        yield


async def test_a_fork_that_a_full_disk_refuses_is_not_there_later(tmp_path: Path) -> None:
    hub = build(tmp_path / "home").service.hub
    session = await hub.new(NewSession(str(tmp_path), model="offline-1"))
    await (await session.submit(text("hello"))).outcome
    with full_disk(), pytest.raises(SidecarError) as caught:
        await hub.fork(ForkOf(session.sid))
    assert caught.value.kind == "storeUnavailable"
    await hub.aclose()
    assert [each.sid for each in await hub.list()] == [session.sid]


@pytest.mark.parametrize("stored_by", ["the next load", "the next session", "the end"])
async def test_what_a_full_disk_refused_of_a_closed_session_is_stored_later(
    tmp_path: Path, stored_by: str
) -> None:
    """Until then it is not loaded again, without what was told of it."""
    hub = build(tmp_path / "home").service.hub
    session = await hub.new(NewSession(str(tmp_path), model="offline-1"))
    await (await session.submit(text("one"))).outcome
    with full_disk():
        await (await session.submit(text("two"))).outcome
        last = session.record.log.seq
        await hub.close(session.sid)
        with pytest.raises(StoreUnavailable):
            await hub.load(session.sid)
    match stored_by:
        case "the next load":
            loaded = (await hub.load(session.sid)).session
            assert [turn.role for turn in loaded.record.history.turns] == ["user", "assistant"] * 2
            assert loaded.record.log.seq >= last, "no number stands for two events"
        case "the next session":
            await hub.close((await hub.new(NewSession(str(tmp_path), model="offline-1"))).sid)
        case _:
            await hub.aclose()
    assert len((await build(tmp_path / "home").service.hub.graph(session.sid)).entries) == 4
    await hub.aclose()


async def test_a_session_that_is_not_loaded_follows_a_rename_when_it_is(make_stage: Any) -> None:
    """A later file of the old name is another file, though the rename is still known."""
    stage = await make_stage([[Call("read", {"path": "a.py"})], [Say("read")]] * 2, tools=[READ])
    old, new = stage.folder / "a.py", stage.folder / "b.py"
    stage.workspace.put(old, "x = 1\n")
    session = await stage.session()
    await stage.ask(session, "read it")
    await stage.hub.close(session.sid)
    await stage.workspace.report_renames([(old, new)])
    loaded = (await stage.hub.load(session.sid)).session
    assert [file.uri for file in await loaded.workbench.files.list_in_context()] == [path_to_uri(new)]
    await stage.ask(loaded, "read the new one")
    files = {path_to_uri(old), path_to_uri(new)}
    assert {file.uri for file in await loaded.workbench.files.list_in_context()} == files
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert {file.uri for file in await loaded.workbench.files.list_in_context()} == files


async def test_a_session_whose_folder_is_gone_knows_its_files_in_the_folder_that_it_is_loaded_in(
    make_stage: Any, tmp_path: Path
) -> None:
    stage, session = await a_talk(make_stage)
    await stage.hub.close(session.sid)
    stage.folder.rename(moved := tmp_path / "moved")
    for cwd in (moved, None):
        loaded = (await stage.hub.load(session.sid, cwd and str(cwd))).session
        assert loaded.info.cwd == str(moved)
        assert [file.uri for file in await loaded.workbench.files.list_in_context()] == [
            path_to_uri(moved / "a.py")
        ]
        await stage.hub.close(session.sid)

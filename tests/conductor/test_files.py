"""What a session tells of the files its model has read: how long ago, when stale, when fresh again."""

from __future__ import annotations

from typing import Any

from sidecar.capabilities.read import READ
from sidecar.conductor.contract import ContextFile
from sidecar.conductor.events import FileFresh, FileStale
from sidecar.conductor.session import Session
from sidecar.llmgateway.scripted import Call, Say
from sidecar.workspace.files import text_hash


async def a_session_that_read(make_stage: Any) -> tuple[Any, Session, str]:
    """A session that has read ``a.py``, whose text is ``one``, and the URI of that."""
    stage = await make_stage([[Call("read", {"path": "a.py"})], [Say("seen")]], tools=[READ], repeat=True)
    stage.workspace.put(stage.folder / "a.py", "one")
    session = await stage.session()
    await stage.ask(session, "read it")
    return stage, session, (stage.folder / "a.py").as_uri()


def told(session: Session) -> list[FileStale | FileFresh]:
    events = (event.data for event in session.record.log.after(0, limit=100_000))
    return [data for data in events if isinstance(data, FileStale | FileFresh)]


async def test_a_read_file_says_how_many_prompts_ago_that_was(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage)
    (file,) = await session.workbench.files.list_in_context()
    assert (file.turns_ago, file.tokens > 0) == (0, True)
    for n in (1, 2):
        await stage.ask(session, "go on")
        (later,) = await session.workbench.files.list_in_context()
        assert later == ContextFile(
            uri, text_hash("one"), "disk", file.read_at_node, file.tokens, False, True, None, n
        )


async def test_a_file_is_stale_until_it_is_again_what_was_read(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage)
    path, one, two = stage.folder / "a.py", text_hash("one"), text_hash("two")
    stage.workspace.put(path, "two")
    stage.workspace.put(path, "one")
    stage.workspace.put(path, None)
    assert told(session) == [
        FileStale(uri, one, two, "disk"),
        FileFresh(uri),
        FileStale(uri, one, None, "disk"),
    ]


async def test_a_stale_file_is_fresh_once_it_is_put_back(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage)
    stage.workspace.put(stage.folder / "a.py", "two")
    await session.rehydrate(None, None)
    assert told(session)[1:] == [FileFresh(uri)]


async def test_a_stale_file_that_is_forgotten_is_nothing_to_tell_of_any_more(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage)
    stage.workspace.put(stage.folder / "a.py", "two")
    await session.rewind(None, expect_head=None)
    assert await session.workbench.files.list_in_context() == ()
    assert told(session)[1:] == [FileFresh(uri)]


async def test_a_turn_stores_what_it_has_read_and_not_what_was_read_before(make_stage: Any) -> None:
    """The cost of a turn follows what is new in it."""
    script = [step for name in "abc" for step in ([Call("read", {"path": f"{name}.py"})], [Say("read")])]
    stage = await make_stage([*script, [Say("nothing to read")]], tools=[READ])
    for name in "abc":
        stage.workspace.put(stage.folder / f"{name}.py", f"{name} = 1\n")
    session = await stage.session()
    for prompt in ("one", "two", "three", "four"):
        await stage.ask(session, prompt)
    files = await session.workbench.files.list_in_context()
    await stage.hub.close(session.sid)
    entries = (await stage.shelf.graph(session.sid)).entries.values()
    assert [len(entry.reads) for entry in entries if entry.kind == "tool"] == [1, 1, 1]
    again = (await stage.hub.load(session.sid)).session
    assert await again.workbench.files.list_in_context() == files

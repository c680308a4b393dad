"""Session files of earlier versions: node lines without entries, and records of the files read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from long_talks import LONG
from sidecar.boot import ENGINES
from sidecar.capabilities.edit import WRITE
from sidecar.capabilities.read import READ
from sidecar.conductor.engine import CompactionRequest, EngineMarks
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.records import SessionInfo, to_record
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn, Turn
from sidecar.llmgateway.scripted import Call, Say
from sidecar.runtime.store import SessionGraph
from sidecar.runtime.store.codec import encode_record, head_record, node_record
from sidecar.runtime.store.session_store import stem_of
from sidecar.workspace.files import text_hash
from turns import assistant, calling, user

SID = "an-old-session"
MARKS = [
    pytest.param(mark, kind, id=f"{name}: {mark[:24].strip()}")
    for name, engine in ENGINES.items()
    for kind, marks in (("summary", engine().marks.summaries), ("file", engine().marks.files))
    for mark in marks
]


READING: list[Turn] = [
    user("read a.py"),
    calling(ToolCallBlock("c1", "read", {"path": "a.py"})),
    ToolTurn((ToolResultBlock("c1", "     1\tx = 1"),)),
    assistant("done"),
]


def reads_of(path: Path, *others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the file that was read in that talk, and of *others*."""
    read: dict[str, Any] = {
        "path": str(path),
        "uri": path.as_uri(),
        "hash": text_hash("x = 1\n"),
        "source": "disk",
        "callId": "c1",
        "version": None,
        "ranges": [],
    }
    return {"type": "reads", "files": [read, *others]}


def write_old_file(
    store: Path, folder: Path, turns: Iterable[Turn], records: Iterable[Mapping[str, Any]] = ()
) -> Path:
    """Write a session as earlier versions did, and return its file."""
    graph = SessionGraph(SID, lambda: 1)
    info = SessionInfo(
        sid=SID, cwd=str(folder), model="scripted-1", engine="windowBudget", created_at=1, updated_at=1
    )
    nodes = [graph.append(turn) for turn in turns]
    lines = [to_record("meta", info), *map(node_record, nodes), head_record(graph.leaf), *records]
    store.mkdir()
    file = store / f"{stem_of(SID)}.jsonl"
    file.write_bytes(b"".join(encode_record(line) + b"\n" for line in lines))
    return file


async def load(stage: Any) -> Session:
    session: Session = (await stage.hub.load(SID)).session
    return session


@pytest.mark.parametrize(("mark", "kind"), MARKS)
async def test_the_kinds_of_an_old_file_come_from_the_marks_of_the_engines(
    make_stage: Any, tmp_path: Path, mark: str, kind: str
) -> None:
    stage = await make_stage()
    turns: list[Turn] = [user(f"{mark}\nso far"), user("one"), assistant("done")]
    file = write_old_file(tmp_path / "store", stage.folder, turns)
    before = file.read_bytes()
    session = await load(stage)
    assert [entry.kind for entry in session.record.history.current] == [kind, "user", "assistant"]
    assert file.read_bytes().startswith(before)


async def test_an_old_session_is_compacted_undone_and_rewound_and_its_lines_stay(
    make_stage: Any, tmp_path: Path
) -> None:
    stage = await make_stage([[Say("# Objective\nFix it.")]])
    turns: list[Turn] = [turn for name in ("one", "two", "three") for turn in (user(name), assistant(LONG))]
    file = write_old_file(tmp_path / "store", stage.folder, turns)
    before = file.read_bytes()
    session = await load(stage)
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == "completed"
    assert [entry.kind for entry in session.record.history.current] == ["summary", "user", "assistant"]
    await session.undo(None, force=False, expect_head=None)
    assert list(session.record.history.turns) == turns
    await session.rewind(session.record.history.current[1].node_id, expect_head=None)
    assert list(session.record.history.turns) == turns[:2]
    await stage.hub.close(SID)
    assert file.read_bytes().startswith(before)
    nodes = [record for line in before.splitlines() if (record := json.loads(line))["type"] == "node"]
    assert not any("entry" in record for record in nodes)


async def test_files_read_in_an_old_session_are_known_where_the_conversation_shows_them(
    make_stage: Any, tmp_path: Path
) -> None:
    writing = [Call("write", {"path": "a.py", "content": "y = 2\n"})]
    stage = await make_stage([writing, [Say("written")]] * 2, tools=[READ, WRITE])
    path = stage.folder / "a.py"
    stage.workspace.put(path, "x = 1\n")
    gone = {"type": "reads", "files": [{"path": str(stage.folder / "b.py"), "gone": True}]}
    file = write_old_file(tmp_path / "store", stage.folder, READING, [reads_of(path, {"path": 7}), gone])
    before = file.read_bytes()
    session = await load(stage)
    (known,) = await session.workbench.files.list_in_context()
    assert (known.uri, known.in_window, known.stale) == (path.as_uri(), True, False)
    assert known.read_at_node == session.record.history.current[2].node_id
    assert known.tokens > 0
    assert file.read_bytes().startswith(before)
    await session.choose("permissions", "allowAll")
    await stage.ask(session, "write it")
    assert stage.workspace.files[path] == "y = 2\n"


async def test_a_fork_of_an_old_session_that_is_not_in_memory_knows_its_files(
    make_stage: Any, tmp_path: Path
) -> None:
    stage = await make_stage()
    path = stage.folder / "a.py"
    stage.workspace.put(path, "x = 1\n")
    write_old_file(tmp_path / "store", stage.folder, READING, [reads_of(path)])
    fork = await stage.hub.fork(ForkOf(SID))
    (known,) = await fork.workbench.files.list_in_context()
    assert (known.uri, known.in_window, known.stale) == (path.as_uri(), True, False)


async def test_the_write_guard_refuses_what_an_old_session_read_before_it_was_changed(
    make_stage: Any, tmp_path: Path
) -> None:
    stage = await make_stage(
        [[Call("write", {"path": "a.py", "content": "y = 2\n"})], [Say("refused")]], tools=[READ, WRITE]
    )
    path = stage.folder / "a.py"
    stage.workspace.put(path, "mine\n")
    write_old_file(tmp_path / "store", stage.folder, READING, [reads_of(path)])
    session = await load(stage)
    await session.choose("permissions", "allowAll")
    await stage.ask(session, "write it")
    assert stage.workspace.files[path] == "mine\n"


def test_no_text_of_an_engine_stands_in_two_modules() -> None:
    """The embedded model is no part of that: it reads what engines wrote, as any model does."""
    package = Path(__file__).parents[2] / "sidecar"
    modules = [path for path in package.rglob("*.py") if path.parent.name != "offline"]
    sources = {path: path.read_text("utf-8") for path in modules}
    for engine in ENGINES.values():
        marks: EngineMarks = engine().marks
        for mark in (*marks.summaries, *marks.files):
            words = mark.strip("\n")
            holders = [path.name for path, source in sources.items() if f'"{words}' in source]
            assert len(holders) <= 1, (words, holders)

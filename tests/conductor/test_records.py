"""Records of a file: whole values, and None for a damaged record."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from long_talks import open_session
from sidecar.conductor.contract import Compaction, TurnEnd
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import FolderUnknownError
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.record.work import ends_of_turns
from sidecar.conductor.records import SessionInfo, from_record, to_record
from sidecar.conductor.session import Session
from sidecar.llmgateway.scripted import Say

INFO = SessionInfo(
    sid="s1",
    cwd="/p",
    model="m",
    engine="windowBudget",
    created_at=1,
    updated_at=2,
    roots=("/q",),
    policy={"keepRecent": 3},
    plan=({},),
)
COMPACTION = Compaction(
    compaction_id="c1",
    engine="windowBudget",
    trigger="manual",
    status="completed",
    pre_tokens=9,
    pre_count=3,
    dropped_count=2,
    cut=2,
    microcompacted=0,
    before_head="n1",
    undoable=True,
    rehydrated=("file:///a",),
    info={"read_files": ["a"]},
)


@pytest.mark.parametrize("value", [INFO, COMPACTION], ids=["meta", "compaction"])
def test_a_record_round_trips(value: Any) -> None:
    """A later version's fields are left out."""
    record = to_record("meta", value)
    assert from_record(type(value), record | {"of_a_later_version": 1}) == value


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"updated_at": None}, id="no time"),
        pytest.param({"seq": "7"}, id="a number as text"),
        pytest.param({"policy": True}, id="no mapping"),
        pytest.param({"plan": 3}, id="no list"),
        pytest.param({"roots": [1]}, id="a folder that is no text"),
    ],
)
def test_a_damaged_record_is_none(damage: dict[str, Any]) -> None:
    assert from_record(SessionInfo, to_record("meta", INFO) | damage) is None


def test_a_lone_surrogate_in_a_literal_makes_the_record_none() -> None:
    assert from_record(Compaction, to_record("compaction", COMPACTION) | {"trigger": "\ud800"}) is None


def test_the_end_of_a_turn_stands_in_the_place_of_the_one_that_was_stored_with_its_prompt() -> None:
    whole = TurnEnd(turn_id="t1", head="b", stop_reason="end_turn", error_kind="", message="")
    ends = [
        TurnEnd(turn_id="t1", head="a"),
        whole,
        killed := TurnEnd(turn_id="t2", head="c"),
        TurnEnd(turn_id="t3", head=None),
        stopped := TurnEnd(turn_id="t4", head="e", stop_reason="cancelled", error_kind="", message=""),
    ]
    records = [{"type": "meta", "end": asdict(end)} for end in ends]
    odd: list[dict[str, Any]] = [
        {"type": "meta"},
        {"type": "meta", "end": {"head": 7}},
        {"type": "todo", "end": records[0]["end"]},
    ]
    assert ends_of_turns([*records, *odd]) == {"c": killed, "e": stopped}


def test_a_record_that_lacks_a_field_is_none() -> None:
    record = to_record("meta", INFO)
    del record["cwd"]
    assert from_record(SessionInfo, record) is None


async def damaged(make_stage: Any, **fields: Any) -> tuple[Any, str, SessionInfo]:
    """Return a stage, and a stored session of it whose file ends with a copy of its record, damaged."""
    stage, session = await open_session(make_stage, title="Parser")
    sid = session.sid
    await stage.hub.close(sid)
    info = session.info
    opened = await stage.shelf.open(sid, create=False)
    await opened.journal.append_records([to_record("meta", info) | fields])
    await opened.release()
    return stage, sid, info


async def test_the_record_before_a_damaged_one_is_used(make_stage: Any) -> None:
    stage, sid, info = await damaged(make_stage, cwd=None)
    assert (await stage.hub.load(sid)).session.info == replace(info, seq_is_last=False)


async def test_the_list_leaves_out_a_damaged_session_only(make_stage: Any) -> None:
    stage, sid, _ = await damaged(make_stage, updated_at=None)
    other = await stage.session(title="Lexer")
    assert [each.title for each in await stage.hub.list()] == ["Lexer"]
    await stage.hub.delete(sid)
    assert [each.sid for each in await stage.hub.list()] == [other.sid]


async def without_meta(make_stage: Any, tmp_path: Path) -> tuple[Any, Session, Path]:
    """Return a stage, and a stored session of it whose file has lost every record of its folder."""
    stage = await make_stage([[Say("one")]], store=tmp_path / "store")
    session = await stage.session(title="Parser")
    await stage.ask(session, "one")
    await stage.hub.close(session.sid)
    file = tmp_path / "store" / f"{session.sid}.jsonl"
    file.write_bytes(file.read_bytes().replace(str(stage.folder).encode(), b"/"))
    return stage, session, file


async def test_a_session_that_has_lost_its_folder_works_in_none_until_one_is_named(
    make_stage: Any, tmp_path: Path
) -> None:
    """Neither in the home folder, whose files nobody gave it, nor after it was renamed or forked."""
    stage, session, _ = await without_meta(make_stage, tmp_path)
    for attempt in (stage.hub.load(session.sid), stage.hub.fork(ForkOf(session.sid))):
        with pytest.raises(FolderUnknownError, match="cannot be read from its file"):
            await attempt
    await stage.hub.amend(session.sid, lambda info: replace(info, title="Renamed"))
    with pytest.raises(FolderUnknownError):
        await stage.hub.load(session.sid)
    loaded = (await stage.hub.load(session.sid, str(stage.folder))).session
    assert (loaded.info.cwd, loaded.info.title) == (str(stage.folder), "Renamed")
    assert [turn.role for turn in loaded.record.history.turns] == ["user", "assistant"]
    assert loaded.record.log.seq > session.record.log.seq
    await stage.hub.close(session.sid)
    assert (await stage.hub.load(session.sid)).session.info.cwd == str(stage.folder)


async def test_a_file_that_is_removed_while_its_session_is_loaded_is_written_again(
    make_stage: Any, tmp_path: Path
) -> None:
    stage = await make_stage([[Say("long " * 2_000)]], repeat=True, store=tmp_path / "store")
    session = await stage.session(title="Parser")
    for prompt in ("one", "two"):
        await stage.ask(session, prompt)
    await session.compact(CompactionRequest(force=True)).outcome
    (tmp_path / "store" / f"{session.sid}.jsonl").unlink()
    await stage.ask(session, "three")
    turns, compactions = list(session.record.history.turns), session.record.compactions.all
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert (list(loaded.record.history.turns), loaded.info.title) == (turns, "Parser")
    assert loaded.record.compactions.all == compactions
    assert compactions[0].status == "completed"
    undone = await loaded.undo(None, force=True, expect_head=None)
    assert undone.compaction.status == "undone"


async def test_an_engine_that_is_not_on_offer_gives_way_to_the_default(make_stage: Any) -> None:
    stage, sid, info = await damaged(make_stage, engine="ofTheFuture")
    assert (await stage.hub.load(sid)).session.info == replace(info, engine="windowBudget", seq_is_last=False)


async def test_a_copied_file_is_a_session_of_its_own(make_stage: Any, tmp_path: Any) -> None:
    stage, session = await open_session(make_stage, store=tmp_path / "store", title="Parser")
    copy = tmp_path / "store" / "copy.jsonl"
    await session.choose("permissions", "ask")
    copy.write_bytes((tmp_path / "store" / f"{session.sid}.jsonl").read_bytes())
    loaded = (await stage.hub.load("copy")).session
    assert (loaded.sid, stage.hub.session(session.sid)) == ("copy", session)
    assert {each.sid for each in await stage.hub.list()} == {"copy", session.sid}

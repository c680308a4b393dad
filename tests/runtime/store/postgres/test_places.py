"""The rules that every place of sessions keeps, files and PostgreSQL alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.record.shelf import describe_stored
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import Amount, CostBudget
from sidecar.runtime.store import SessionLockedError, SessionPlace, SessionStore
from sidecar.runtime.store.place import DaySum, SessionQuery, key_of
from turns import texts, user


@pytest.fixture(
    params=["files", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.processes])]
)
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], SessionPlace]:
    """Returns places of one kind that hold the same sessions, as several daemons have them."""
    if request.param == "files":
        return lambda: SessionStore(tmp_path / "store")
    made: Callable[[], SessionPlace] = request.getfixturevalue("make_store")
    return made


@pytest.fixture
def place(make_place: Callable[[], SessionPlace]) -> SessionPlace:
    """A place of each kind."""
    return make_place()


async def test_what_is_written_is_read_again(place: SessionPlace) -> None:
    held = await place.hold("s")
    journal = place.journal("s")
    await journal.load()
    await journal.append([Entry(user("a\x00b \ud800 é"), "user"), Entry(user("c"), "file")])
    await journal.append_records([{"type": "meta", "title": "t\x00"}, {"type": "note", "x": [1]}])
    head = journal.head
    await journal.replace([Entry(user("new"), "summary", origin=tuple(journal.history.node_ids))])
    await journal.move_to(journal.history_at(head))
    place.close("s")
    held.release()
    await place.settle()
    stored = await place.open("s")
    assert stored.integrity.ok
    assert stored.graph.leaf == head
    assert texts(stored.graph.path_to(str(head))) == ["a\x00b \ud800 é", "c"]
    kinds = [entry.kind for entry in stored.graph.entries.values()]
    assert kinds == ["user", "file", "summary"]
    assert [record["type"] for record in stored.records] == ["meta", "note"]
    assert await place.exists("s")
    assert not await place.exists("other")
    [summary] = await place.summaries()
    assert (summary.session_id, summary.meta) == ("s", {"type": "meta", "title": "t\x00"})


async def test_there_is_one_writer(place: SessionPlace) -> None:
    held = await place.hold("s")
    with pytest.raises(SessionLockedError):
        await place.hold("s")
    held.release()
    held.release()
    (await place.hold("s")).release()


async def test_a_deleted_session_is_gone_and_may_begin_anew(place: SessionPlace) -> None:
    for n_turns in (2, 1):
        held = await place.hold("s")
        journal = place.journal("s")
        await journal.load()
        for n in range(n_turns):
            await journal.append([Entry(user(f"turn {n}"), "user")])
        assert len((await place.open("s")).graph.nodes) == n_turns
        place.close("s")
        held.release()
        assert await place.delete("s")
    assert not await place.delete("s")
    assert await place.summaries() == []


async def test_a_session_is_found_by_the_words_in_it(place: SessionPlace) -> None:
    for sid, text in (("a", "the unclosed Bracket\nof été"), ("b", "another bracket")):
        held = await place.hold(sid)
        journal = place.journal(sid)
        await journal.load()
        await journal.append([Entry(user("first"), "user"), Entry(user(text), "user")])
        place.close(sid)
        held.release()
    assert await place.search(["bracket"]) == {"a", "b"}
    assert await place.search(["bracket", "UNCLOSED", "first"]) == {"a"}
    assert await place.search(["été"]) == {"a"}
    assert await place.search(["nowhere"]) == set()


async def test_a_held_batch_is_stored_whole(place: SessionPlace) -> None:
    held = await place.hold("s")
    journal = place.journal("s")
    await journal.load()
    journal.hold()
    await journal.append([Entry(user("a"), "user")])
    await journal.append_records([{"type": "note"}])
    assert not await place.exists("s")
    await journal.release()
    stored = await place.open("s")
    assert (len(stored.graph.nodes), len(stored.records)) == (1, 1)
    held.release()


async def store_meta(place: SessionPlace, sid: str, updated_at: int, **fields: Any) -> None:
    """Store the meta record of a session."""
    meta = {"type": "meta", "sid": sid, "cwd": "/p", "model": "m", "engine": "none", "created_at": 0}
    held = await place.hold(sid)
    await place.journal(sid).append_records([{**meta, "updated_at": updated_at, "title": "", **fields}])
    place.close(sid)
    held.release()
    await place.wait_free(sid)


async def pages(place: SessionPlace, size: int, **fields: Any) -> list[list[str]]:
    """Return the ids of the sessions that a list shows, page by page."""
    read = place.lister(SessionSummary, describe_stored)
    found, query = [], SessionQuery(limit=size, **fields)
    while lines := await read(query):
        found.append([line.sid for line in lines])
        query = SessionQuery(limit=size, **{**fields, "after": key_of(lines[-1])})
    return found


async def test_a_list_comes_in_pages_the_newest_first(place: SessionPlace) -> None:
    for sid, updated_at in (("b", 5), ("a", 5), ("B", 5), ("old", 1), ("new", 9)):
        await store_meta(place, sid, updated_at)
    held = await place.hold("no meta")
    await place.journal("no meta").append([])
    assert await pages(place, 2) == [["new", "b"], ["a", "B"], ["old"]]
    assert await pages(place, 5) == [["new", "b", "a", "B", "old"]]
    everything = await place.lister(SessionSummary, describe_stored)(SessionQuery())
    assert [line.sid for line in everything] == ["new", "b", "a", "B", "old"]
    held.release()


async def test_the_children_of_a_session_are_listed(place: SessionPlace) -> None:
    for at, parent in enumerate(("s%", "sx", 'é"', "\ud800", "s%")):
        await store_meta(place, f"of {parent!a} {at}", at, parent=parent, kind="subagent")
    await store_meta(place, "fork", 7, parent="s%")
    await store_meta(place, "named so", 8, title='"parent":"s%"', kind="subagent")
    assert await pages(place, 2, parent="s%") == [["of 's%' 4", "of 's%' 0"]]
    assert await pages(place, 2, parent='é"') == [["of '\\xe9\"' 2"]]
    assert await pages(place, 2, parent="\ud800") == [["of '\\ud800' 3"]]


async def test_no_session_is_listed_twice_or_left_out_while_others_come_and_go(
    make_place: Callable[[], SessionPlace],
) -> None:
    ours, theirs = make_place(), make_place()
    for number in range(10):
        await store_meta(theirs, f"s{number}", number)
    read = ours.lister(SessionSummary, describe_stored)
    first = await read(SessionQuery(limit=4))
    await store_meta(theirs, "new", 100)
    await store_meta(theirs, "s3", 101)
    assert await theirs.delete("s8")
    assert await theirs.delete("s5")
    second = await read(SessionQuery(limit=3, after=key_of(first[-1])))
    third = await read(SessionQuery(limit=3, after=key_of(second[-1])))
    shown = [[line.sid for line in page] for page in (first, second, third)]
    assert shown == [["s9", "s8", "s7", "s6"], ["s4", "s2", "s1"], ["s0"]]
    again = await read(SessionQuery(limit=3))
    assert [line.sid for line in again] == ["s3", "new", "s9"]


async def test_a_page_can_be_read_by_a_daemon_that_read_none_before(
    make_place: Callable[[], SessionPlace],
) -> None:
    for number in range(4):
        await store_meta(make_place(), f"s{number}", number)
    assert await pages(make_place(), 5, after=(2, "s2")) == [["s1", "s0"]]


FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a folder, however it was encoded": ({"cwd": "/é"}, ["half", "accent"]),
    "a part of a folder is another one": ({"cwd": "/"}, []),
    "a folder that no index can hold": ({"cwd": f"/{'x' * 4000}/a"}, ["archived"]),
    "a folder that begins alike": ({"cwd": f"/{'x' * 4000}/b"}, []),
    "upper case is ignored": ({"words": ("parser",)}, ["quote", "upper"]),
    "all words": ({"words": ("the", "parser")}, ["upper"]),
    "a letter that becomes two": ({"words": ("strasse",)}, ["accent"]),
    "a quotation mark": ({"words": ('"parser',)}, ["quote"]),
    "a character that is escaped": ({"words": ("\0nul",)}, ["quote"]),
    "half a character": ({"words": ("\ud83d",)}, ["half"]),
    "no pattern": ({"words": ("%",)}, []),
    "without archived ones": ({"archived": False}, ["half", "quote", "accent", "upper"]),
    "ids": ({"ids": {"upper", "archived", "gone"}}, ["archived", "upper"]),
    "no ids": ({"ids": set()}, []),
    "several": ({"cwd": "/é", "words": ("strasse",)}, ["accent"]),
}


async def test_a_list_is_filtered(place: SessionPlace) -> None:
    await store_meta(place, "upper", 1, title="The PARSER")
    await store_meta(place, "accent", 2, title="Straße", cwd="/é")
    await store_meta(place, "quote", 3, title='say "Parser" \0nul', archived=False)
    await store_meta(place, "half", 4, title="\ud83d", cwd="/é")
    await store_meta(place, "archived", 5, title="done", archived=True, cwd=f"/{'x' * 4000}/a")
    for size in (1, 9):
        found = {name: await pages(place, size, **query) for name, (query, _) in FILTERS.items()}
        assert {name: [*chain(*each)] for name, each in found.items()} == {
            name: expected for name, (_, expected) in FILTERS.items()
        }


async def test_the_newest_meta_record_decides(place: SessionPlace) -> None:
    await store_meta(place, "a", 1, title="old", archived=True, cwd="/old")
    await store_meta(place, "b", 2)
    await store_meta(place, "a", 3, title='"updated_at":7,"cwd":"/p","archived":true')
    assert await pages(place, 9, archived=False, cwd="/p") == [["a", "b"]]
    assert await pages(place, 1, after=(7, "z")) == [["a"], ["b"]]


async def test_raw_lines_move_between_places(place: SessionPlace, tmp_path: Path) -> None:
    held = await place.hold("s")
    journal = place.journal("s")
    await journal.load()
    await journal.append([Entry(user("a"), "user"), Entry(user("b"), "user")])
    other = SessionStore(tmp_path / "other")
    await other.write_raw("s", await place.read_raw("s"))
    assert (await other.open("s")).graph.nodes == journal.graph.nodes
    assert await other.read_raw("s") == await place.read_raw("s")
    held.release()


async def test_what_a_day_took_is_one_sum_of_all_daemons(make_place: Callable[[], SessionPlace]) -> None:
    one, two = make_place(), make_place()
    day = "2026-03-01"
    assert (await one.spend(day, Amount())).sum == Amount()
    await one.spend(day, Amount(0.25, 100))
    assert (await two.spend(day, Amount(0.5, 20))).sum == Amount(0.75, 120)
    budget = CostBudget(usd=1.0, per="day")
    assert await two.spend(day, Amount(0.3, 1), budget) == DaySum(Amount(0.75, 120), is_added=False)
    assert await one.spend(day, Amount(0.25, 1), budget) == DaySum(Amount(1.0, 121))
    assert not (await two.spend(day, Amount(), budget)).is_added, "nothing is left"
    assert (await make_place().spend(day, Amount(-0.5, 0))).sum == Amount(0.5, 121)
    assert (await one.spend("2026-03-02", Amount(0.0, 5), budget)).sum == Amount(0.0, 5), "a new day"
    tokens = CostBudget(tokens=10, per="day")
    assert not (await two.spend("2026-03-02", Amount(9.0, 6), tokens)).is_added


async def test_daemons_that_spend_at_once_stay_in_one_budget(make_place: Callable[[], SessionPlace]) -> None:
    places, budget = [make_place() for _ in range(3)], CostBudget(usd=1.0, tokens=100, per="day")
    wanted = (place.spend("2026-03-01", Amount(0.125, 5), budget) for place in places for _ in range(6))
    done = await asyncio.gather(*wanted)
    assert [each.is_added for each in done].count(True) == 8
    assert (await places[0].spend("2026-03-01", Amount())).sum == Amount(1.0, 40)

"""The journal of a session: after the head, as a branch, through crashes and full disks."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput, LeaseLostError
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.store import SessionJournal, SessionStore, StoreUnavailable, heal, journal_in_memory
from sidecar.runtime.store.errors import TakenOverError
from sidecar.runtime.store.lines import LineWriter, append_lines, read_lines
from sidecar.runtime.store.reading import read_session
from turns import user


def lines_of(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "store" / "s.jsonl").read_bytes().splitlines()]


def kinds_of(root: Path) -> str:
    return "".join(line["type"][0] for line in lines_of(root))


class Disk:
    """A disk that can be full; it counts the writes that reach it."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self.path = path
        self.clock = clock
        self.is_full = False
        self.writes: list[bytes] = []

    def append(self, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        append_lines(self.path, data)
        self.writes.append(data)

    def journal(self) -> SessionJournal:
        return SessionJournal(
            LineWriter("s", self.append), lambda: read_session(read_lines(self.path), "s", self.clock)
        )


@pytest.fixture
def disk(tmp_path: Path, clock: Callable[[], int]) -> Disk:
    return Disk(tmp_path / "store" / "s.jsonl", clock)


async def test_records_go_after_the_head_and_come_back(store: SessionStore, tmp_path: Path) -> None:
    journal = store.journal("s")
    assert await journal.load() == ()
    await journal.record([user("a")])
    await journal.record([user("b"), user("c")])
    assert kinds_of(tmp_path) == "nhnhnh"
    again = store.journal("s")
    assert await again.load() == (user("a"), user("b"), user("c"))
    assert (again.head, again.history.node_ids) == (journal.head, journal.history.node_ids)
    assert len(again.history.node_ids) == 3
    assert again.integrity.ok


async def test_a_branch_holds_exactly_its_turns_and_shares_what_it_can(
    store: SessionStore, tmp_path: Path
) -> None:
    journal = store.journal("s")
    await journal.record([user("a"), user("b"), user("c")])
    old = journal.history.node_ids
    await journal.branch([user("a"), user("x")])
    assert kinds_of(tmp_path) == "nhnhnhnh"
    assert await journal.load() == (user("a"), user("x"))
    assert journal.history.node_ids[0] == old[0]
    assert tuple(journal.history_at(old[-1]).turns) == (user("a"), user("b"), user("c"))


async def test_a_summary_of_the_same_words_is_another_one(store: SessionStore) -> None:
    """It stands for other entries, which must be found behind it."""
    journal = store.journal("s")
    for word in ("a", "b"):
        await journal.record([user(word)])
        await journal.replace([Entry(user("done"), "summary", origin=tuple(journal.history.node_ids))])
    (second,) = journal.history
    (first, *_) = second.origin
    assert journal.graph.entries[first].kind == "summary"
    assert [entry.turn for entry in journal.history.originals()] == [user("a"), user("b")]


async def test_the_head_can_be_moved_back_and_on(store: SessionStore, tmp_path: Path) -> None:
    journal = store.journal("s")
    await journal.record([user("a"), user("b")])
    first, second = journal.history.node_ids
    await journal.move_to(journal.history_at(first))
    assert (await journal.load(), await store.journal("s").load()) == ((user("a"),), (user("a"),))
    await journal.move_to(journal.history_at(second))
    assert await store.journal("s").load() == (user("a"), user("b"))
    with pytest.raises(ValueError, match="no node 'nope'"):
        await journal.move_to(journal.history_at("nope"))
    await journal.branch([user("a")])
    assert kinds_of(tmp_path) == "nhnhhhh", "a branch that is there already only moves the head"
    await journal.branch([])
    again = store.journal("s")
    assert (await again.load(), again.head) == ((), None)
    await again.record([user("c")])
    assert await store.journal("s").load() == (user("c"),)


async def test_notes_are_kept_in_order_and_do_not_move_the_head(store: SessionStore) -> None:
    journal = store.journal("s")
    notes: list[dict[str, Any]] = [{"type": "meta", "title": "é"}, {"type": "seq", "seq": 3}]
    await journal.record([user("a")])
    await journal.append_records(notes)
    again = store.journal("s")
    assert await again.load() == (user("a"),)
    assert (again.take_records(), again.take_records()) == (tuple(notes), ())


async def test_what_is_held_is_one_write(disk: Disk) -> None:
    journal = disk.journal()
    await journal.record([user("a"), user("b")])
    (first, _), before = journal.history.node_ids, len(disk.writes)
    journal.hold()
    await journal.move_to(journal.history_at(first))
    await journal.record([user("c")])
    await journal.append_records([{"type": "note"}])
    assert len(disk.writes) == before
    await journal.release()
    assert len(disk.writes) == before + 1
    assert await disk.journal().load() == (user("a"), user("c"))


@pytest.mark.parametrize("record", [{}, {"type": 1}, {"type": "node"}, {"type": "head"}])
async def test_a_note_needs_a_type_of_its_own(store: SessionStore, record: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="cannot be stored as a note"):
        await store.journal("s").append_records([record])


CALL = AssistantTurn((ToolCallBlock("c1", "read", {}), ToolCallBlock("c2", "read", {})))


async def test_what_a_crash_left_open_is_healed_on_load_and_ids_still_match(
    store: SessionStore, tmp_path: Path
) -> None:
    journal = store.journal("s")
    await journal.record([user("a"), CALL, ToolTurn((ToolResultBlock("c2", "ok"),)), AssistantTurn(())])
    before = (tmp_path / "store" / "s.jsonl").read_bytes()
    again = store.journal("s")
    turns = await again.load()
    assert turns == heal(turns)
    assert [turn.role for turn in turns] == ["user", "assistant", "tool"]
    assert len(again.history.node_ids) == 3
    assert again.history.node_ids[:2] == journal.history.node_ids[:2]
    assert (tmp_path / "store" / "s.jsonl").read_bytes() == before
    await again.record([user("b")])
    last = store.journal("s")
    assert await last.load() == (*turns, user("b"))
    assert last.history.node_ids == again.history.node_ids


async def test_a_full_disk_is_told_and_nothing_is_lost(disk: Disk) -> None:
    journal = disk.journal()
    await journal.record([user("a")])
    disk.is_full = True
    for text in "bc":
        with pytest.raises(StoreUnavailable, match="No space left on device") as caught:
            await journal.record([user(text)])
        assert str(disk.path) not in str(caught.value)
    with pytest.raises(StoreUnavailable):
        await journal.append_records([{"type": "meta"}])
    assert await disk.journal().load() == (user("a"),)
    disk.is_full = False
    await journal.record([user("d")])
    again = disk.journal()
    assert await again.load() == tuple(map(user, "abcd"))
    assert again.history.node_ids == journal.history.node_ids


async def test_a_turn_that_is_none_does_not_take_the_ones_before_it_along(disk: Disk) -> None:
    journal = disk.journal()
    broken: Any = 7
    with pytest.raises(TypeError):
        await journal.record([user("a"), user(TextBlock(broken))])
    await journal.record([user("b")])
    again = disk.journal()
    assert await again.load() == (user("a"), user("b"))
    assert again.integrity.ok


async def test_a_caller_that_retries_adds_its_turns_once(disk: Disk) -> None:
    journal = disk.journal()
    due: list[Turn] = [user("a")]
    disk.is_full = True
    with pytest.raises(StoreUnavailable):
        await journal.record(due)
    due.append(user("b"))
    with pytest.raises(StoreUnavailable):
        await journal.record(due)
    disk.is_full = False
    await journal.record(due)
    await journal.record([user("c")])
    assert await disk.journal().load() == (user("a"), user("b"), user("c"))


async def test_closing_writes_what_waits(disk: Disk) -> None:
    journal = disk.journal()
    disk.is_full = True
    with pytest.raises(StoreUnavailable):
        await journal.record([user("a")])
    with pytest.raises(StoreUnavailable):
        await journal.close()
    disk.is_full = False
    await journal.close()
    assert await disk.journal().load() == (user("a"),)


async def test_a_cancelled_caller_does_not_tear_the_file(disk: Disk) -> None:
    journal = disk.journal()
    await journal.load()
    task = asyncio.ensure_future(journal.record([user("a")]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await journal.record([user("b")])
    await journal.close()
    assert await disk.journal().load() == (user("a"), user("b"))


async def test_the_event_loop_is_never_blocked_by_the_disk(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    loop_ran = asyncio.Event()

    def append_when_the_loop_ran(data: bytes) -> None:
        asyncio.run_coroutine_threadsafe(loop_ran.wait(), loop).result()

    monkeypatch.setattr(disk, "append", append_when_the_loop_ran)
    recording = asyncio.ensure_future(disk.journal().record([user("a")]))
    loop.call_soon(loop_ran.set)
    await recording


async def test_a_session_in_memory_keeps_nothing_on_disk(clock: Callable[[], int]) -> None:
    journal = journal_in_memory("s", clock)
    await journal.record([user("a")])
    await journal.branch([user("b")])
    assert await journal.load() == (user("b"),)
    assert len(journal.graph.nodes) == 2


def test_before_load_there_is_nothing_to_look_at(clock: Callable[[], int]) -> None:
    journal = journal_in_memory("s", clock)
    assert (journal.head, journal.history.node_ids, journal.graph.nodes, journal.take_records()) == (
        None,
        (),
        (),
        (),
    )
    with pytest.raises(ValueError, match="call load first"):
        journal.history_at("x")


U, A = UserTurn((TextBlock("u"),)), AssistantTurn((TextBlock("a"),))
RESULTS = ToolTurn((ToolResultBlock("c1", 1), ToolResultBlock("c2", 2)))


@pytest.mark.parametrize(
    ("turns", "shape"),
    [
        pytest.param([U, CALL, RESULTS, A], "user assistant tool assistant", id="whole"),
        pytest.param([U, CALL], "user assistant tool", id="orphan calls are answered"),
        pytest.param([U, CALL, U], "user assistant tool user", id="before the next prompt"),
        pytest.param([RESULTS, U], "user", id="orphan results are dropped"),
        pytest.param([U, AssistantTurn(()), U], "user user", id="blank turns are dropped"),
        pytest.param([U, CALL, U, RESULTS], "user assistant tool user", id="late results move up"),
    ],
)
def test_heal(turns: list[Turn], shape: str) -> None:
    healed = heal(turns)
    assert " ".join(turn.role for turn in healed) == shape
    assert heal(healed) == healed
    if healed == tuple(turns):
        assert all(a is b for a, b in zip(healed, turns, strict=True))


async def test_lines_that_come_while_a_write_is_refused_are_refused_too() -> None:
    is_writing, may_end = threading.Event(), threading.Event()

    def append(data: bytes) -> None:
        is_writing.set()
        may_end.wait(20)
        raise TakenOverError("another daemon")

    writer = LineWriter("s", append)
    first = asyncio.ensure_future(writer.write([b"a"]))
    await asyncio.to_thread(is_writing.wait, 20)
    second = asyncio.ensure_future(writer.write([b"b"]))
    await asyncio.sleep(0)
    assert len(writer.waiting) == 2
    may_end.set()
    for write in (first, second):
        with pytest.raises(LeaseLostError):
            await write
    assert writer.waiting == []

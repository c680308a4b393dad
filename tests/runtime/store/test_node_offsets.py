"""Pages of a session file are those of the whole session, whatever happened to the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from properties import sample
from sidecar.conversation import Entry, kind_by_role
from sidecar.llmgateway.contract import AssistantTurn, TextBlock, ToolCallBlock, Turn
from sidecar.runtime.store import SessionStore, node_offsets
from sidecar.runtime.store.codec import encode_line, head_record
from sidecar.runtime.store.node_offsets import NodeOffsets, offsets_path, read_page
from turns import user

PAGES = (range(3), range(2, 60))
LIKE_RECORDS = [{"type": "node", "node": {"id": "x"}}, {"type": "batch", "records": []}, "é\n"]
CALL = AssistantTurn((TextBlock("b"), ToolCallBlock("c", "ask", {"records": LIKE_RECORDS})))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionStore:
    """A store on a quick disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    return SessionStore(tmp_path, clock=count(1).__next__)


@pytest.fixture
def keeps_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets of short and new files are kept too."""
    monkeypatch.setattr(node_offsets, "_LEAST_BYTES", 0)
    monkeypatch.setattr(node_offsets, "SETTLED_NS", -(1 << 62))


def entries(*turns: Turn | str) -> list[Entry]:
    said = [user(turn) if isinstance(turn, str) else turn for turn in turns]
    return [Entry(turn, kind_by_role(turn)) for turn in said]


async def write_branches(store: SessionStore, session_id: str) -> Path:
    """Store a session that is rewound, compacted, rewound to nothing, and goes on at an older node."""
    journal = store.journal(session_id)
    await journal.append(entries("a", CALL, "c", "d"))
    await journal.append_records([{"type": "meta", "title": "é", "node": 1, "leaf": 2}])
    older = journal.history
    await journal.move_to(journal.history.first(2))
    await journal.append(entries("e"))
    journal.hold()
    await journal.replace(entries("summary", "e"))
    await journal.append_records([{"type": "compaction"}])
    await journal.release()
    await journal.move_to(journal.history.first(0))
    await journal.append(entries("f", "g"))
    await journal.move_to(older)
    await journal.append(entries("h"))
    return store._path(session_id)


async def write_fork(store: SessionStore, session_id: str) -> Path:
    """Store a session that begins with the branches of another one, as one line."""
    source = store.journal("source")
    await write_branches(store, "source")
    await source.load()
    journal = store.journal(session_id)
    await journal.adopt([{"type": "meta"}], tuple(source.graph.entries.values()), source.head)
    await journal.append(entries("i"))
    return store._path(session_id)


def as_read(path: Path, page: range, *, of_path: bool) -> list[Entry] | None:
    return read_page(path, page, of_path=of_path, recognise=kind_by_role)


def told(found: Sequence[Entry]) -> list[Any]:
    return [(entry, entry.node_id, entry.parent, entry.created_at) for entry in found]


async def check(store: SessionStore, session_id: str) -> None:
    whole, path = (await store.open(session_id)).graph, store._path(session_id)
    for of_path in (True, False):
        for page in PAGES:
            found = as_read(path, page, of_path=of_path)
            if found is not None:
                assert told(found) == told(whole.page(page, of_path=of_path))


@pytest.mark.parametrize("write", [write_branches, write_fork])
async def test_a_whole_file_is_read_by_pages(store: SessionStore, write: Any) -> None:
    path = await write(store, "s")
    assert None not in [as_read(path, page, of_path=of_path) for page in PAGES for of_path in (True, False)]
    await check(store, "s")
    found = await store.page("s", range(2, 9), of_path=True)
    assert told(found) == told((await store.open("s")).graph.page(range(2, 9), of_path=True))


async def test_a_conversation_that_was_rewound_to_nothing_has_an_empty_path(store: SessionStore) -> None:
    path = await write_branches(store, "s")
    path.write_bytes(path.read_bytes() + encode_line(head_record(None)))
    assert as_read(path, range(9), of_path=True) == []
    await check(store, "s")


@pytest.mark.parametrize("write", [write_branches, write_fork])
async def test_a_file_cut_anywhere_has_the_pages_of_what_is_left(store: SessionStore, write: Any) -> None:
    path = await write(store, "s")
    whole = path.read_bytes()
    n_first = len(b"".join(whole.splitlines(keepends=True)[:2]))
    for cut in sample(range(0, len(whole) + 1, 11)):
        path.write_bytes(whole[:cut])
        await check(store, "s")
        assert cut < n_first or as_read(path, range(9), of_path=True) is not None


@pytest.mark.parametrize("write", [write_branches, write_fork])
async def test_a_file_with_any_damage_has_the_pages_of_what_is_good(store: SessionStore, write: Any) -> None:
    path = await write(store, "s")
    whole = path.read_bytes()
    for at in sample(range(0, len(whole), 11)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        await check(store, "s")


async def test_a_session_goes_on_after_a_crash(store: SessionStore) -> None:
    path = await write_branches(store, "s")
    path.write_bytes(path.read_bytes()[:-40])
    store.close("s")
    await store.journal("s").append(entries("next"))
    assert as_read(path, range(9), of_path=True) is not None
    await check(store, "s")


async def test_lines_of_earlier_versions_and_lost_ones_are_read_as_a_whole(store: SessionStore) -> None:
    path = await write_branches(store, "s")
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(len(lines)):
        path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        await check(store, "s")
        path.write_bytes(
            b"".join(lines[:number]) + lines[number][:-19] + b"}\n" + b"".join(lines[number + 1 :])
        )
        await check(store, "s")


@pytest.mark.usefixtures("keeps_offsets")
async def test_a_file_is_scanned_once_while_it_stays_as_it_is(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, scanned, scan = await write_branches(store, "s"), list[int](), node_offsets.scan

    def record_and_scan(file: BinaryIO, size: int) -> NodeOffsets | None:
        scanned.append(size)
        return scan(file, size)

    monkeypatch.setattr(node_offsets, "scan", record_and_scan)
    await check(store, "s")
    await check(store, "s")
    assert scanned == [path.stat().st_size]
    await store.journal("s").append(entries("next"))
    await check(store, "s")
    assert scanned[1:] == [path.stat().st_size]


@pytest.mark.usefixtures("keeps_offsets")
async def test_offsets_that_are_damaged_or_of_another_file_are_made_again(store: SessionStore) -> None:
    path = await write_branches(store, "s")
    await check(store, "s")
    kept = offsets_path(path).read_bytes()
    other = await write_fork(store, "t")
    await check(store, "t")
    for at in sample(range(0, len(kept), 3)):
        for damaged in (kept[:at], kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :]):
            offsets_path(path).write_bytes(damaged)
            await check(store, "s")
    offsets_path(path).write_bytes(offsets_path(other).read_bytes())
    await check(store, "s")
    assert offsets_path(path).read_bytes() == kept


async def test_a_record_that_is_not_the_node_of_its_place_is_not_shown(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await write_branches(store, "s")
    found = node_offsets.scan
    monkeypatch.setattr(node_offsets, "scan", lambda file, size: moved(found(file, size)))

    def moved(offsets: Any) -> Any:
        offsets.starts[2], offsets.lengths[2] = offsets.starts[5], offsets.lengths[5]
        return offsets

    assert as_read(path, range(9), of_path=True) is None


async def test_a_short_file_keeps_no_offsets(store: SessionStore) -> None:
    path = await write_branches(store, "s")
    await check(store, "s")
    assert not offsets_path(path).exists()


@pytest.mark.usefixtures("keeps_offsets")
async def test_a_deleted_session_leaves_no_offsets(store: SessionStore) -> None:
    path = await write_branches(store, "s")
    await check(store, "s")
    assert offsets_path(path).exists()
    assert await store.delete("s")
    assert not offsets_path(path).exists()


async def test_a_page_of_nothing_is_empty(store: SessionStore) -> None:
    assert [*await store.page("s", range(9), of_path=True)] == []

"""A crash at any byte costs nothing that was complete, and the next append works."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases, sample
from sidecar.llmgateway.contract import Turn, UserTurn
from sidecar.runtime.store import SessionJournal, SessionStore
from sidecar.runtime.store.lines import append_lines, parse_line, read_lines, torn_path
from turns import user

Say = Callable[[str], UserTurn]


async def loaded(store: SessionStore) -> tuple[SessionJournal, Sequence[Turn]]:
    journal = store.journal("s")
    return journal, await journal.load()


def complete_nodes(data: bytes) -> set[str]:
    """Return the ids of the node lines of *data* that are whole, with or without their newline."""
    records = [parse_line(line) for line in data.split(b"\n")]
    return {record["node"]["id"] for record in records if record and record["type"] == "node"}


async def test_a_file_cut_at_every_byte_loads_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    store = SessionStore(tmp_path, clock=count(1).__next__)
    journal = store.journal("s")
    await journal.record([user("a"), user("é😀")])
    await journal.append_records([{"type": "meta", "title": "x"}])
    await journal.branch([user("summary"), user("é😀")])
    path = tmp_path / "s.jsonl"
    whole = path.read_bytes()
    for cut in sample(range(len(whole) + 1)):
        path.write_bytes(whole[:cut])
        torn_path(path).unlink(missing_ok=True)
        reopened, turns = await loaded(store)
        assert {node.id for node in reopened.graph.nodes} == complete_nodes(whole[:cut])
        assert not reopened.integrity.missing
        assert path.read_bytes() == whole[:cut], "reading changes nothing"
        assert turns in [(), (user("a"),), (user("a"), user("é😀")), (user("summary"), user("é😀"))]
        await reopened.record([user("next")])
        again, longer = await loaded(store)
        assert (longer, again.integrity.ok) == ((*turns, user("next")), True)


async def test_a_torn_line_is_moved_aside_and_not_destroyed(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    await store.journal("s").record([user("a")])
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"node","no')
    assert (await store.open("s")).integrity.repaired == ("line 3: cut off by a crash, left out",)
    await store.journal("s").record([user("b")])
    assert torn_path(path).read_bytes() == b'{"type":"node","no\n'
    assert (await loaded(store))[1] == (user("a"), user("b"))


def test_a_torn_line_longer_than_a_block_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":"' + b"x" * 200_000)
    append_lines(path, b'{"c":3}\n')
    assert [line.record for line in read_lines(path)] == [{"a": 1}, {"c": 3}]


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    append_lines(path, b'{"a":1}\n')

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        append_lines(path, b'{"b":2}\n')
    assert path.read_bytes() == b'{"a":1}\n'


@pytest.mark.parametrize("n_bytes", [1, 3])
def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:n_bytes]))
    append_lines(tmp_path / "s.jsonl", b'{"a":1}\n')
    assert (tmp_path / "s.jsonl").read_bytes() == b'{"a":1}\n'


Act = tuple[str, int]
acts = st.lists(
    st.tuples(st.sampled_from(["record", "branch", "move", "note"]), st.integers(0, 5)),
    min_size=1,
    max_size=8,
)


@cases(50)
@given(acts, st.data())
def test_any_history_cut_anywhere_keeps_what_was_acknowledged(acts: list[Act], data: st.DataObject) -> None:
    """What an act came to is on disk when it returns: a file cut behind that is at that state or later."""
    with TemporaryDirectory() as folder:
        asyncio.run(_cut_somewhere(Path(folder), acts, data))


async def _cut_somewhere(folder: Path, acts: list[Act], data: st.DataObject) -> None:
    store = SessionStore(folder, clock=count(1).__next__)
    journal = store.journal("s")
    states: list[tuple[int, Sequence[Turn]]] = [(0, await journal.load())]
    for number, (name, size) in enumerate(acts):
        turns = [user(f"{number}.{i}") for i in range(size + 1)]
        if name == "record":
            await journal.record(turns)
        elif name == "branch":
            await journal.branch([*states[-1][1][:size], *turns])
        elif name == "move" and journal.history.node_ids:
            await journal.move_to(
                journal.history_at(journal.history.node_ids[size % len(journal.history.node_ids)])
            )
        else:
            await journal.append_records([{"type": "note", "n": number}])
        path = folder / "s.jsonl"
        states.append((path.stat().st_size, await journal.load()))
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    _, turns_now = await loaded(store)
    acknowledged = max(index for index, (size, _) in enumerate(states) if size <= cut)
    allowed = [state for _, state in states[acknowledged : acknowledged + 2]]
    between = tuple(turns_now) == tuple(allowed[-1][: len(turns_now)]) and len(turns_now) >= len(allowed[0])
    assert turns_now in allowed or between


@cases(50)
@given(st.lists(st.tuples(st.integers(0, 2_000), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4))
def test_damage_anywhere_is_survived(damages: list[tuple[int, bytes]]) -> None:
    """Bytes overwritten anywhere: reading ends, every untouched line counts, and writing goes on."""
    with TemporaryDirectory() as folder:
        asyncio.run(_damage(Path(folder), damages))


async def _damage(folder: Path, damages: list[tuple[int, bytes]]) -> None:
    store = SessionStore(folder, clock=count(1).__next__)
    await store.journal("s").record([user("a"), user("b")])
    await store.journal("s").branch([user("a"), user("c"), user("d")])
    path = folder / "s.jsonl"
    before = path.read_bytes()
    data = bytearray(before)
    for at, junk in damages:
        data[at % len(data) : at % len(data) + len(junk)] = junk
    path.write_bytes(data)
    journal, turns = await loaded(store)
    assert len(journal.history.node_ids) == len(turns)
    untouched = set(bytes(data).split(b"\n")) & set(before.split(b"\n"))
    assert complete_nodes(b"\n".join(untouched)) <= {node.id for node in journal.graph.nodes}
    await journal.record([user("next")])
    again, later = await loaded(store)
    assert later == (*turns, user("next"))
    assert again.head == journal.head


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_kill_9_leaves_every_turn_that_was_acknowledged(tmp_path: Path) -> None:
    """The child tells each turn after it is stored, and is killed at some point; all it told are there."""
    script = (
        "import asyncio, sys\n"
        "from sidecar.llmgateway.contract import TextBlock, UserTurn\n"
        "from sidecar.runtime.store import SessionStore\n"
        "async def main():\n"
        "    journal = SessionStore(sys.argv[1]).journal('s')\n"
        "    for i in range(10_000):\n"
        "        await journal.record([UserTurn((TextBlock(str(i) * 500),))])\n"
        "        print(i, flush=True)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        while int(child.stdout.readline()) < 20:
            pass
        child.send_signal(signal.SIGKILL)
        told = max([20, *map(int, child.stdout.read().split())])
    turns = asyncio.run(loaded(SessionStore(tmp_path)))[1]
    assert len(turns) >= told + 1
    assert turns == tuple(user(str(i) * 500) for i in range(len(turns)))

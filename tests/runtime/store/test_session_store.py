"""The store of sessions: files, names, listing, migration."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.errors import InvalidInput
from sidecar.conversation import Entry, FileRead
from sidecar.llmgateway.contract import AssistantTurn, ToolCallBlock, ToolResultBlock, ToolTurn, UserTurn
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import SessionGraph, SessionLockedError, SessionStore, StoreUnavailable
from sidecar.runtime.store.codec import encode_line, encode_record, head_record, node_record
from sidecar.runtime.store.session_store import session_id_of, stem_of
from turns import user

Clock = Callable[[], int]


def file_of(store_root: Path, *records: Mapping[str, Any] | str) -> Path:
    """Write a session file by hand; text stands for a raw line."""
    path = store_root / "store" / "s.jsonl"
    path.parent.mkdir()
    lines = [each.encode() + b"\n" if isinstance(each, str) else encode_line(each) for each in records]
    path.write_bytes(b"".join(lines))
    return path


def chain(clock: Clock, texts: str) -> list[SessionNode]:
    graph = SessionGraph("s", clock)
    return [graph.append(user(text)) for text in texts]


async def test_ids_and_names_of_files_are_one_text_each_in_memory(tmp_path: Path) -> None:
    journal = SessionStore(tmp_path).journal("s")
    read = FileRead(path="/w/a.py", uri="file:///w/a.py", hash="h", source="disk", call_id="c1")
    call, result = ToolCallBlock("c1", "read", {}), ToolResultBlock("c1", "text")
    await journal.append([Entry(AssistantTurn((call,)), "assistant")])
    for _ in range(2):
        await journal.append([Entry(ToolTurn((result,)), "tool", reads=(read,))])
    entries = list((await SessionStore(tmp_path).open("s")).graph.entries.values())
    assert [entry.turn.blocks for entry in entries] == [(call,), (result,), (result,)]
    assert [entry.reads for entry in entries] == [(), (read,), (read,)]
    shown = [block for entry in entries for block in entry.turn.blocks]
    ids = [each.id for each in shown if isinstance(each, ToolCallBlock)]
    ids += [each.call_id for each in shown if isinstance(each, ToolResultBlock)]
    files = [(each.path, each.uri, each.hash) for entry in entries for each in entry.reads]
    assert len({*map(id, ids)}) == 1
    assert len({id(name) for file in files for name in file}) == 3
    assert all(after.parent is before.node_id for before, after in pairwise(entries))


async def test_an_append_is_two_lines_of_utf_8(store: SessionStore, tmp_path: Path) -> None:
    node = SessionGraph("s", clock=lambda: 7).append(user("é"))
    await store.append_node("s", node)
    lines = (tmp_path / "store" / "s.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:2]] == [
        {
            "type": "node",
            "node": {
                "id": node.id,
                "parent": None,
                "turn": {"role": "user", "blocks": [{"kind": "text", "text": "é"}]},
                "createdAt": 7,
            },
            "sum": "74497a6c",
        },
        {"type": "head", "leaf": node.id, "sum": "cddc755b"},
    ]
    assert lines[2:] == [b""]
    assert "é".encode() in lines[0]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
async def test_files_are_the_users_alone(store: SessionStore, tmp_path: Path) -> None:
    await store.append_node("s", SessionGraph("s").append(user("a")))
    modes = [stat.S_IMODE(os.stat(tmp_path / each).st_mode) for each in ("store", "store/s.jsonl")]
    assert modes == [0o700, 0o600]


async def test_appends_of_one_session_keep_their_order(store: SessionStore, clock: Clock) -> None:
    nodes = chain(clock, "abcdefgh")
    await asyncio.gather(*(store.append_node("s", node) for node in nodes))
    graph = await store.load_session("s")
    assert (graph.nodes, graph.leaf) == (tuple(nodes), nodes[-1].id)


async def test_only_session_files_are_listed(store: SessionStore, tmp_path: Path) -> None:
    for name in ("../b", "a"):
        await store.append_node(name, SessionGraph(name).append(user(name)))
    assert os.listdir(tmp_path) == ["store"]
    for name in ("a.jsonl.torn", "a.lock", "notes.txt", "not ours.jsonl"):
        (tmp_path / "store" / name).touch()
    assert sorted(await store.list_sessions()) == ["../b", "a"]


async def test_outputs_that_are_no_json_do_not_end_the_session(store: SessionStore) -> None:
    journal = store.journal("s")
    outputs = [object(), {1, 2}, b"\xff", {(1, 2): None}, float("nan"), 2**80, "\ud800"]
    calls = UserTurn(tuple(ToolCallBlock(f"c{i}", "x", output) for i, output in enumerate(outputs)))
    await journal.record([user("before"), calls, user("after")])
    stored = await store.open("s")
    assert stored.integrity.ok
    assert repr(stored.graph.nodes) == repr(journal.graph.nodes)
    assert len(stored.graph.path_to(stored.graph.leaf or "")) == 3
    values = [block.input for block in stored.graph.nodes[1].turn.blocks if isinstance(block, ToolCallBlock)]
    assert repr(values).startswith("['<object object")
    assert repr(values[1:]) == repr([[1, 2], {"$base64": "/w=="}, {"[1,2]": None}, *outputs[4:]])


@pytest.mark.parametrize(
    ("lines", "leaf"),
    [
        pytest.param("ambBA", "a", id="the last head wins, and other types are ignored"),
        pytest.param("abc", "c", id="no head was stored"),
        pytest.param("aAbc", "c", id="nodes follow the last head"),
    ],
)
async def test_a_lost_head_line_loses_no_history(
    store: SessionStore, tmp_path: Path, clock: Clock, lines: str, leaf: str
) -> None:
    """A small letter is the line of a node, its capital that of the head at it; m is a line of meta."""
    nodes = dict(zip("abc", chain(clock, "abc"), strict=True))
    note = {"type": "meta", "title": "x"}
    records = {name: node_record(node) for name, node in nodes.items()}
    records |= {name.upper(): head_record(node.id) for name, node in nodes.items()} | {"m": note}
    file_of(tmp_path, *(records[each] for each in lines), "")
    stored = await store.open("s")
    assert (stored.graph.leaf, stored.integrity.ok) == (nodes[leaf].id, True)
    assert stored.records == (note,) * lines.count("m")


async def test_a_corrupt_line_is_skipped_and_reported(
    store: SessionStore, tmp_path: Path, clock: Clock
) -> None:
    a, b, c = chain(clock, "abc")
    broken = "{broken"
    file_of(tmp_path, node_record(a), head_record(a.id), broken, head_record(b.id), node_record(c))
    stored = await store.open("s")
    assert stored.graph.leaf == c.id
    assert stored.graph.path_to(c.id) == (user("a"), user("c"))
    assert stored.integrity.missing == ("line 3: it is not a JSON object", f"node {b.id}")
    assert stored.integrity.repaired == (f"node {c.id} follows on {a.id} now",)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"node"}',
        '{"type":"node","node":{"id":"x","parent":null,"turn":{"role":"bard","blocks":[]},"createdAt":0}}',
        '{"type":"node","node":{"id":1,"parent":null,"turn":{"role":"user","blocks":[]},"createdAt":0}}',
        '{"type":"head"}',
        '{"type":"head","leaf":7}',
    ],
)
async def test_a_record_that_does_not_fit_is_reported(store: SessionStore, tmp_path: Path, line: str) -> None:
    file_of(tmp_path, line)
    stored = await store.open("s")
    assert stored.graph.leaf is None
    assert len(stored.integrity.missing) == 1
    assert stored.integrity.missing[0].startswith("line 1: ")


async def test_content_that_was_changed_is_reported_in_a_file_without_checksums(
    store: SessionStore, tmp_path: Path, clock: Clock
) -> None:
    a = chain(clock, "a")[0]
    forged = SessionNode(a.id, a.parent, user("forged"), a.created_at)
    file_of(tmp_path, *(encode_record(each).decode() for each in (node_record(forged), head_record(a.id))))
    stored = await store.open("s")
    assert stored.integrity.missing == (f"node {a.id}: its content is not what it was",)
    assert stored.graph.path_to(a.id) == (user("forged"),)


@pytest.mark.parametrize("text", ["1e400", "NaN", '"\\ud83d"', "1" * 40, "[" * 50 + "]" * 50])
async def test_values_that_only_pythons_parser_knows_are_read(
    store: SessionStore, tmp_path: Path, text: str
) -> None:
    file_of(tmp_path, f'{{"type":"note","value":{text}}}')
    [record] = (await store.open("s")).records
    assert repr(record["value"]) == repr(json.loads(text))


async def test_parents_in_a_circle_are_cut_and_reported(store: SessionStore, tmp_path: Path) -> None:
    a, b, c = (SessionNode(name, parent, user(name), 0) for name, parent in ("ab", "ba", "cb"))
    file_of(tmp_path, node_record(a), node_record(b), node_record(c), head_record("c"))
    stored = await store.open("s")
    assert stored.graph.path_to("c") == (user("a"), user("b"), user("c"))
    assert "the parent of node a: it runs in a circle" in stored.integrity.missing


@dataclass(frozen=True, slots=True)
class Rename:
    id: str = "rename"

    def upgrade(self, raw: dict[str, Any]) -> dict[str, Any]:
        if raw.get("type") == "poison":
            raise RuntimeError("cannot upgrade this")
        return {**raw, "type": {"knot": "node"}.get(raw["type"], raw["type"])}


async def test_migrators_run_over_every_record(tmp_path: Path, clock: Clock) -> None:
    a = chain(clock, "a")[0]
    file_of(tmp_path, {**node_record(a), "type": "knot"}, head_record(a.id), {"type": "poison"})
    stored = await SessionStore(tmp_path / "store", [Rename()]).open("s")
    assert stored.graph.leaf == a.id
    assert stored.integrity.missing == ("line 3: RuntimeError in its record",)


async def test_long_reports_are_cut(store: SessionStore, tmp_path: Path) -> None:
    file_of(tmp_path, *["{broken"] * 30)
    missing: Sequence[str] = (await store.open("s")).integrity.missing
    assert (len(missing), missing[-1]) == (21, "and 10 more")


async def test_deleting_removes_everything(store: SessionStore, tmp_path: Path) -> None:
    await store.append_node("s", SessionGraph("s").append(user("x")))
    (tmp_path / "store" / "s.jsonl.torn").touch()
    assert await store.exists("s")
    assert await store.delete("s")
    assert not await store.delete("s")
    assert not await store.exists("s")
    assert [name for name in os.listdir(tmp_path / "store") if not name.endswith(".lock")] == []


async def test_a_session_in_use_is_not_deleted(store: SessionStore) -> None:
    await store.append_node("s", SessionGraph("s").append(user("x")))
    with store.lock("s"), pytest.raises(SessionLockedError):
        await store.delete("s")
    assert await store.exists("s")


async def test_an_unreadable_file_is_a_typed_error_and_not_an_empty_session(
    store: SessionStore, tmp_path: Path
) -> None:
    (tmp_path / "store" / "s.jsonl").mkdir(parents=True)
    with pytest.raises(StoreUnavailable) as caught:
        await store.load_session("s")
    assert caught.value.kind == "storeUnavailable"
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes have no place among files there")
async def test_a_pipe_among_the_sessions_blocks_nothing(store: SessionStore, tmp_path: Path) -> None:
    await store.append_node("a", SessionGraph("a").append(user("x")))
    os.mkfifo(tmp_path / "store" / "s.jsonl")
    assert [found.session_id for found in await store.summaries()] == ["a"]
    for attempt in (store.open("s"), store.append_node("s", SessionGraph("s").append(user("x")))):
        with pytest.raises(StoreUnavailable):
            await attempt


async def test_a_store_whose_folder_is_a_file_reads_as_empty_and_says_why_it_cannot_write(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    store = SessionStore(tmp_path / "file")
    assert await store.list_sessions() == []
    assert (await store.load_session("s")).leaf is None
    with pytest.raises(StoreUnavailable):
        await store.append_node("s", SessionGraph("s").append(user("a")))


async def test_lines_that_a_full_disk_refused_wait_while_their_session_is_closed(
    tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "store").write_text("no folder")
    store = SessionStore(tmp_path / "store")
    journal = store.journal("s")
    await journal.load()
    with pytest.raises(StoreUnavailable):
        await journal.append([Entry(user("kept"), "user")])
    store.close("s")
    (tmp_path / "store").unlink()
    await store.append_node("s", SessionGraph("s", clock).append(user("later")))
    assert len((await store.load_session("s")).nodes) == 2


async def test_a_session_that_is_read_again_is_the_same_while_its_file_is(
    store: SessionStore, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.runtime.store.session_store.time.time_ns", lambda: 2**63)
    path = file_of(tmp_path, *map(node_record, chain(clock, "ab")))
    first = await store.open("s")
    assert await store.open("s") is first
    with path.open("ab") as file:
        file.write(encode_line(head_record(None)))
    longer = await store.open("s")
    assert longer is not first
    # Another file of the same size and the same time, as ``cp -p`` and ``mv`` leave it.
    other = path.with_name("other")
    shutil.copy2(path, other)
    os.replace(other, path)
    again = await store.open("s")
    assert again is not longer
    await store.delete("s")
    assert (await store.open("s")).graph.leaf is None


@pytest.mark.parametrize(
    ("session_id", "stem"),
    [
        pytest.param("s-1_a.b", "s-1_a.b", id="a safe id is its own name"),
        pytest.param("../escape", "%2E%2E%2Fescape", id="no way up"),
        pytest.param("/etc/passwd", "%2Fetc%2Fpasswd", id="no absolute path"),
        pytest.param("..\\up", "%2E%2E%5Cup", id="no way up on Windows"),
        pytest.param("CON", "%43ON", id="no device"),
        pytest.param("nul.txt", "%6Eul%2Etxt", id="no device with an extension"),
        pytest.param(".hidden", "%2Ehidden", id="no hidden file"),
        pytest.param("dot.", "%64ot%2E", id="no dot at the end"),
        pytest.param("a\0b", "%61%00b", id="no NUL"),
        pytest.param("", "%", id="nothing"),
        pytest.param("%61", "%2561", id="what looks escaped"),
        pytest.param("a" * 129, "%61" + "a" * 128, id="long"),
        pytest.param("é😀", "%C3%A9%F0%9F%98%80", id="beyond ASCII"),
    ],
)
def test_any_id_becomes_a_safe_name(session_id: str, stem: str) -> None:
    assert stem_of(session_id) == stem
    assert session_id_of(stem) == session_id


def test_an_absurd_id_is_refused() -> None:
    with pytest.raises(InvalidInput, match="1000 characters is too long"):
        stem_of("/" * 1000)


@pytest.mark.parametrize("stem", ["no id of ours", "%2e%2e", "%ff", "%zz", "a%62", "x" * 300])
def test_names_that_no_id_has_are_none(stem: str) -> None:
    assert session_id_of(stem) is None


@given(st.text(st.characters(), max_size=20) | st.from_regex(r"[\w.\\/%-]{1,8}", fullmatch=True))
def test_every_id_stays_in_the_folder_and_comes_back(session_id: str) -> None:
    stem = stem_of(session_id)
    assert session_id_of(stem) == session_id
    assert re.fullmatch(r"[A-Za-z0-9._%-]+", stem)
    assert Path("root", stem).resolve().parent == Path("root").resolve()

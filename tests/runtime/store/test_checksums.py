"""Each line has a checksum: a change of any byte is noticed, and a changed record leads nobody astray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from properties import sample
from sidecar.runtime.store import SessionGraph, SessionStore
from sidecar.runtime.store.codec import encode_batch, encode_line, encode_record, head_record, node_record
from turns import user

COMPACTION: dict[str, Any] = {"type": "compaction", "before_head": "n1", "cut": 12, "summary": "Fix é"}


def write(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / "store" / "s.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def without_checksum(record: dict[str, Any]) -> bytes:
    return encode_record(record) + b"\n"


async def test_a_change_of_any_byte_of_any_record_is_noticed(store: SessionStore, tmp_path: Path) -> None:
    node = SessionGraph("s", clock=lambda: 7).append(user("a"))
    records = [node_record(node), head_record(node.id), COMPACTION, {"type": "meta", "cwd": "/work"}]
    whole = b"".join(map(encode_line, records)) + encode_batch([*map(encode_record, records)])
    first = encode_line({"type": "note"})
    path = write(tmp_path, first, whole)
    assert (await store.open("s")).integrity.ok
    for at in sample(range(len(whole))):
        path.write_bytes(first + whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        assert not (await store.open("s")).integrity.ok, whole[max(0, at - 20) : at + 1]


async def test_of_a_changed_line_only_the_nodes_are_used(store: SessionStore, tmp_path: Path) -> None:
    """A session stands where it stood, and never in a folder that nobody named."""
    graph = SessionGraph("s", clock=lambda: 7)
    first, second = graph.append(user("a")), graph.append(user("b"))
    meta = {"type": "meta", "cwd": "/work"}
    write(
        tmp_path,
        *map(encode_line, (node_record(first), head_record(first.id), meta)),
        encode_line(meta).replace(b"/work", b"/bork"),
        encode_line(COMPACTION).replace(b"12", b"13"),
        encode_line(node_record(second)).replace(b'"b"', b'"x"'),
        encode_line(head_record(second.id)),
    )
    stored = await store.open("s")
    assert stored.records == (meta,)
    assert stored.graph.path_to(stored.graph.leaf or "") == (user("a"), user("x"))
    assert stored.integrity.missing == (
        "line 4: its checksum does not match",
        "line 5: its checksum does not match",
        "line 6: its checksum does not match",
        f"node {second.id}: its content is not what it was",
    )
    summary = await store.summary("s")
    assert summary is not None
    assert summary.meta == meta


async def test_a_file_of_an_earlier_version_has_no_checksums(store: SessionStore, tmp_path: Path) -> None:
    node = SessionGraph("s", clock=lambda: 7).append(user("a"))
    write(tmp_path, *map(without_checksum, (node_record(node), head_record(node.id), COMPACTION)))
    await store.journal("s").record([user("b")])
    stored = await store.open("s")
    assert stored.integrity.ok
    assert stored.graph.path_to(stored.graph.leaf or "") == (user("a"), user("b"))
    assert stored.records == (COMPACTION,)


async def test_a_line_that_has_lost_its_checksum_is_used_and_reported(
    store: SessionStore, tmp_path: Path
) -> None:
    write(tmp_path, encode_line({"type": "meta"}), without_checksum(COMPACTION))
    stored = await store.open("s")
    assert stored.records == ({"type": "meta"}, COMPACTION)
    assert stored.integrity.missing == ("line 2: it has no checksum, unlike the lines before it",)


@pytest.mark.parametrize("records", ["7", '["no record"]', "null"])
async def test_a_batch_that_holds_no_records_is_reported(
    store: SessionStore, tmp_path: Path, records: str
) -> None:
    line = f'{{"type":"batch","records":{records}}}\n'.encode()
    write(tmp_path, line, encode_line({"type": "meta"}))
    stored = await store.open("s")
    assert stored.records == ({"type": "meta"},)
    assert len(stored.integrity.missing) == 1
    assert await store.summary("s") is not None


async def test_a_long_batch_is_read_record_by_record(store: SessionStore, tmp_path: Path) -> None:
    records = [
        {"type": "note", "text": text, "inner": [{"a": "]},["}]} for text in ("é" * 900_000, "b" * 200_000)
    ]
    whole = encode_batch([*map(encode_record, records)])
    path = write(tmp_path, whole)
    opened = await store.open("s")
    assert (opened.records, opened.integrity.ok) == (tuple(records), True)
    for cut in (whole[: len(whole) // 2], whole[:-2], whole.replace(b"]}", b"]", 1)):
        path.write_bytes(cut)
        assert not (await store.open("s")).integrity.ok

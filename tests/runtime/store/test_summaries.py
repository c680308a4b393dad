"""A session at a glance: its newest meta record, wherever it is in the file."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.runtime.store import SessionStore, StoredSummary
from sidecar.runtime.store.place import ALL_SESSIONS, ListSessions
from turns import user


@dataclass(frozen=True)
class Titled:
    """A session in a list, for the tests."""

    sid: str
    title: str
    cwd: str = ""
    updated_at: int = 0
    archived: bool = False
    kind: str | None = None
    parent: str | None = None


def meta(title: str) -> dict[str, str]:
    return {"type": "meta", "title": title}


async def test_the_newest_meta_counts(store: SessionStore, tmp_path: Path) -> None:
    journal = store.journal("s")
    await journal.append_records([meta("old"), meta("new"), {"type": "seq", "seq": 1}])
    path = tmp_path / "store" / "s.jsonl"
    os.utime(path, ns=(0, 5_000_000))
    summary = await store.summary("s")
    assert summary is not None
    assert (summary.session_id, summary.meta, summary.modified_ms) == ("s", meta("new"), 5)
    assert summary.size_bytes == path.stat().st_size


async def found_meta(store: SessionStore) -> object:
    summary = await store.summary("s")
    assert summary is not None
    return summary.meta


@pytest.mark.parametrize(
    "text", ["x" * 10, "x" * 700_000, '{"type":"meta","title":"no"}\n{"type":"meta"}'], ids=len
)
async def test_it_is_found_whatever_follows(store: SessionStore, tmp_path: Path, text: str) -> None:
    journal = store.journal("s")
    await journal.record([user("a")])
    assert await found_meta(store) is None
    await journal.append_records([meta("found")])
    await journal.record([user(text)])
    assert await found_meta(store) == meta("found")
    with (tmp_path / "store" / "s.jsonl").open("ab") as file:
        file.write(b'{"type":"meta","tit')
    assert await found_meta(store) == meta("found")


async def test_all_sessions_the_newest_first(store: SessionStore, tmp_path: Path) -> None:
    for age, name in enumerate(("../b", "a", "c")):
        await store.journal(name).append_records([meta(name)])
        path = next((tmp_path / "store").glob(f"*{name[-1]}.jsonl"))
        os.utime(path, ns=(0, age * 1_000_000))
    assert [summary.session_id for summary in await store.summaries()] == ["c", "a", "../b"]


def title_of(stored: StoredSummary) -> Titled | None:
    return None if stored.meta is None else Titled(stored.session_id, stored.meta["title"])


async def titles(read: ListSessions[Titled]) -> list[tuple[str, str]]:
    return [(line.sid, line.title) for line in await read(ALL_SESSIONS)]


async def test_stores_of_one_folder_list_what_any_of_them_wrote(tmp_path: Path) -> None:
    stores = [SessionStore(tmp_path / "store") for _ in range(2)]
    first, second = (store.lister(Titled, title_of) for store in stores)
    assert await titles(first) == await titles(second) == []
    journals = {name: stores[0].journal(name) for name in "ab"}
    for name, journal in journals.items():
        await journal.append_records([meta(f"{name}1")])
    await stores[0].journal("c").record([user("no meta")])
    assert await titles(first) == await titles(second) == [("b", "b1"), ("a", "a1")]
    await journals["a"].append_records([meta("a2")])
    assert await titles(second) == [("b", "b1"), ("a", "a2")]
    shutil.copy(tmp_path / "store" / "a.jsonl", tmp_path / "store" / "copy.jsonl")
    await stores[1].delete("b")
    expected = [("copy", "a2"), ("a", "a2")]
    fresh = SessionStore(tmp_path / "store").lister(Titled, title_of)
    assert await titles(first) == await titles(second) == await titles(fresh) == expected

"""A session at a glance: its newest meta record, wherever it is in the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store import SessionStore


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


@pytest.mark.parametrize("n_chars", [10, 70_000, 700_000])
async def test_it_is_found_however_much_follows(store: SessionStore, n_chars: int) -> None:
    journal = store.journal("s")
    await journal.append_records([meta("found")])
    await journal.record([UserTurn((TextBlock("x" * n_chars),))])
    summary = await store.summary("s")
    assert summary is not None
    assert summary.meta == meta("found")


async def test_a_conversation_about_metas_does_not_deceive(store: SessionStore) -> None:
    journal = store.journal("s")
    await journal.append_records([meta("real")])
    await journal.record([UserTurn((TextBlock('{"type":"meta","title":"no"}\n{"type":"meta"}'),))])
    summary = await store.summary("s")
    assert summary is not None
    assert summary.meta == meta("real")


async def test_a_torn_meta_is_passed_over(store: SessionStore, tmp_path: Path) -> None:
    await store.journal("s").append_records([meta("whole")])
    with (tmp_path / "store" / "s.jsonl").open("ab") as file:
        file.write(b'{"type":"meta","tit')
    summary = await store.summary("s")
    assert summary is not None
    assert summary.meta == meta("whole")


async def test_a_session_without_meta_has_none(store: SessionStore) -> None:
    await store.journal("s").record([UserTurn((TextBlock("a"),))])
    summary = await store.summary("s")
    assert summary is not None
    assert summary.meta is None


async def test_all_sessions_the_newest_first(store: SessionStore, tmp_path: Path) -> None:
    for age, name in enumerate(("../b", "a", "c")):
        await store.journal(name).append_records([meta(name)])
        path = next((tmp_path / "store").glob(f"*{name[-1]}.jsonl"))
        os.utime(path, ns=(0, age * 1_000_000))
    assert [summary.session_id for summary in await store.summaries()] == ["c", "a", "../b"]

"""KnowledgeLibrary: one index of each kind a folder, shared, cited as the session's tools would find it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

import pytest

from room_events import FakeSessionArchive, make_message
from sidecar.rooms import KnowledgeResult, KnowledgeSource
from sidecar.rooms.knowledge.library import KnowledgeLibrary
from sidecar.workspace.workspace import Workspace
from watch_nothing import watch_nothing


class Bench:
    def __init__(self, home: Path, project: Path) -> None:
        self.home = home
        self.project = project
        self.archive = FakeSessionArchive()
        self.workspace = Workspace(watch_source=watch_nothing)
        self.library = KnowledgeLibrary(self.workspace, self.archive, home)
        self.hidden: Collection[str] = ()
        self.progress: list[tuple[int, int]] = []

    async def open(self, sid: str, *names: str, roots: Sequence[Path] = ()) -> Sequence[KnowledgeSource]:
        return await self.library.open(
            sid,
            names,
            roots or [self.project],
            excluded_ids=lambda: self.hidden,
            progress=lambda done, total: self.progress.append((done, total)),
        )

    async def search(self, sources: Sequence[KnowledgeSource], query: str) -> list[KnowledgeResult]:
        for folder in tuple(self.library._folders.values()):
            if folder.files is not None:
                await folder.files.wait_until_idle()
            if folder.sessions is not None:
                await folder.sessions.wait_until_idle()
        return [found for source in sources for found in await source.search(query, room_id="s1")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    project = tmp_path / "project"
    project.mkdir()
    made = Bench(tmp_path / "home", project)
    yield made
    for sid in ("s1", "s2"):
        await made.library.release(sid)
    await made.workspace.close()


async def test_the_files_of_the_folder_are_cited_from_it(bench: Bench) -> None:
    (bench.project / "a.py").write_text("alpha = 1\n")
    sources = await bench.open("s1", "workspace")
    assert [source.name for source in sources] == ["workspace"]
    (found,) = await bench.search(sources, "alpha")
    assert (found.content, found.source) == ("a.py:1\nalpha = 1", "workspace")
    assert bench.progress[-1] == (1, 1)


async def test_the_files_of_another_folder_are_cited_by_their_whole_path(bench: Bench) -> None:
    other = bench.project.parent / "other"
    other.mkdir()
    (other / "b.py").write_text("\nbeta = 1\n")
    sources = await bench.open("s1", "workspace", roots=[bench.project, other, bench.project])
    assert len(sources) == 2
    (found,) = await bench.search(sources, "beta")
    assert found.content == f"{other / 'b.py'}:2\nbeta = 1"
    assert bench.progress[-1] == (1, 1), "the folders are counted together"


async def test_a_folder_inside_another_is_indexed_once(bench: Bench) -> None:
    inner = bench.project / "inner"
    inner.mkdir()
    (inner / "a.py").write_text("alpha = 1\n")
    beside = bench.project.with_name("project-2")
    sources = await bench.open("s1", "workspace", roots=[inner, bench.project, beside])
    assert len(sources) == 2
    (found,) = await bench.search(sources, "alpha")
    assert found.content == f"{inner / 'a.py'}:1\nalpha = 1"


async def test_what_was_said_is_labelled_with_speaker_and_day(bench: Bench) -> None:
    first = make_message("s0", "user.1", "the port is 7341")
    second = make_message("s1", "assistant.1", "the port was changed")
    bench.archive.put(bench.project, "s0", 1, [first])
    bench.archive.put(bench.project, "s1", 1, [second])
    sources = await bench.open("s1", "sessions")
    found = await bench.search(sources, "port")
    assert {(each.content, each.source) for each in found} == {
        ("the port is 7341", "a conversation, user, 2026-01-02"),
        ("the port was changed", "this conversation, assistant, 2026-01-02"),
    }
    bench.hidden = ["assistant.1"]
    assert [each.content for each in await bench.search(sources, "port")] == ["the port is 7341"]


async def test_conversations_of_another_folder_are_not_found(bench: Bench) -> None:
    bench.archive.put(
        bench.project.parent, "s0", 1, [make_message("s0", "user.1", "the secret port is 7341")]
    )
    assert await bench.search(await bench.open("s1", "sessions"), "port") == []


async def test_sessions_of_one_folder_share_its_indices(bench: Bench) -> None:
    (bench.project / "a.py").write_text("alpha = 1\n")
    first = await bench.open("s1", "workspace", "sessions")
    second = await bench.open("s2", "workspace", "sessions")
    assert bench.library.in_use == {bench.project}
    bench.library.ingest(bench.project, [make_message("s1", "user.we say b", "we say beta for alpha")])
    assert len(await bench.search(second, "alpha")) == 2
    await bench.library.release("s1")
    assert len(await bench.search(second, "alpha")) == 2
    bench.library.forget("s1")
    assert len(await bench.search(second, "alpha")) == 1
    await bench.library.release("s2")
    assert not bench.library.in_use
    assert len(first) == 2


async def test_an_index_is_kept_below_home_and_opened_again(bench: Bench) -> None:
    (bench.project / "a.py").write_text("alpha = 1\n")
    await bench.search(await bench.open("s1", "workspace"), "alpha")
    await bench.library.release("s1")
    (kept,) = bench.home.glob("project-*/workspace.db")
    assert kept.stat().st_size > 0
    assert len(await bench.search(await bench.open("s1", "workspace"), "alpha")) == 1
    assert [path.name for path in bench.project.iterdir()] == ["a.py"], "nothing is written to the folder"


async def test_without_names_nothing_is_opened(bench: Bench) -> None:
    assert await bench.open("s1") == []
    assert not bench.home.exists()
    assert bench.library.names == ("workspace", "sessions")

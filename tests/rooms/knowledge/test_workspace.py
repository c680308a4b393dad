"""FilesIndex: files are found by their words, their names and their paths, as they are now."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.rooms.knowledge.workspace import FilesIndex, ListFiles, ReadFile

ROOT = Path("/workspace")


class Files:
    """A workspace in memory: what is listed, what each file says, and who asked from which thread."""

    def __init__(self, **texts: str | Exception | None) -> None:
        self.texts = {
            ROOT / name.replace("__", "/").replace("_py", ".py"): text for name, text in texts.items()
        }
        self.reads: list[str] = []
        self.threads: set[int] = set()
        self.progress: list[tuple[int, int]] = []
        self.errors: list[Exception] = []

    def list(self) -> Iterable[Path]:
        self.threads.add(threading.get_ident())
        return list(self.texts)

    def read(self, path: Path) -> str | None:
        self.threads.add(threading.get_ident())
        self.reads.append(path.name)
        text = self.texts.get(path)
        if isinstance(text, Exception):
            raise text
        return text

    def source_of(
        self, *, database: Path | None = None, list: ListFiles | None = None, read: ReadFile | None = None
    ) -> FilesIndex:
        """A source over these files, or as *list* and *read* have them."""
        return FilesIndex(
            list or self.list,
            read or self.read,
            root=ROOT,
            database=database,
            on_progress=lambda done, total: self.progress.append((done, total)),
            on_error=self.errors.append,
        )

    @asynccontextmanager
    async def source(self, *, build: bool = True, **options: Any) -> AsyncIterator[FilesIndex]:
        source = self.source_of(**options)
        if build:
            source.refresh()
            await source.wait_until_idle()
        yield source
        await source.close()


async def places(source: FilesIndex, query: str) -> list[str]:
    """``path:line`` of each find."""
    return [f"{hit.title}:{hit.chunk.line}" for hit in await source.find(query, limit=5)]


async def test_finds_say_where_they_are() -> None:
    text = "import os\n\n\ndef load_config(path):\n    return os.stat(path)\n"
    async with Files(src__app_py=text, src__other_py="x = 1\n").source() as source:
        (hit,) = await source.find("where is the loadConfig function?", limit=5)
        assert (hit.title, hit.key) == ("src/app.py", "/workspace/src/app.py")
        assert hit.chunk == (4, "def load_config(path):\n    return os.stat(path)")
        assert 0 < hit.score < 1


async def test_paths_are_searched() -> None:
    async with Files(src__userStore_py="pass", docs__guide_py="pass").source() as source:
        assert await places(source, "userstore") == ["src/userStore.py:1"]
        assert await places(source, "store") == ["src/userStore.py:1"]
        assert await places(source, "docs/guide.py") == ["docs/guide.py:1", "src/userStore.py:1"]


async def test_everything_blocking_is_off_the_event_loop() -> None:
    files = Files(a_py="parser")
    async with files.source() as source:
        assert await places(source, "parser") == ["a.py:1"]
    assert threading.get_ident() not in files.threads


async def test_progress_is_told_batch_by_batch() -> None:
    files = Files(broken_py=OSError("denied"), **{f"f{number}_py": "x" for number in range(39)})
    async with files.source():
        assert files.progress == [(32, 40), (40, 40)]
        assert files.errors == []


async def test_changes_and_deletions_are_taken_in() -> None:
    files = Files(a_py="parser", b_py="parser", pkg__c_py="parser", pkg__sub__d_py="parser")
    async with files.source() as source:
        files.reads.clear()
        files.texts[ROOT / "a.py"] = "window"
        source.note_change(ROOT / "a.py")
        source.note_deletion(ROOT / "b.py")
        source.note_deletion(ROOT / "pkg")
        await source.wait_until_idle()
        assert (await places(source, "parser"), await places(source, "window")) == ([], ["a.py:1"])
        assert files.reads == ["a.py"]


async def test_refresh_reads_all_and_indexes_what_differs() -> None:
    files = Files(a_py="parser", b_py="parser", **{"odd\ud800_py": "parser"})
    async with files.source() as source:
        del files.texts[ROOT / "a.py"]
        del files.texts[ROOT / "odd\ud800.py"]
        files.texts[ROOT / "c.py"] = "parser"
        source.refresh()
        await source.wait_until_idle()
        assert sorted(await places(source, "parser")) == ["b.py:1", "c.py:1"]


@pytest.mark.parametrize(
    ("text", "query", "place"),
    [
        pytest.param("parser " * 100, "big", ["big.py:1"], id="a big file is found by its path"),
        pytest.param("parser " * 100, "parser", [], id="and not by what it says"),
        pytest.param("parser\0", "big", [], id="a binary file is not found"),
        pytest.param("", "big", ["big.py:1"], id="an empty file is"),
    ],
)
async def test_sizes_and_kinds(
    text: str, query: str, place: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.rooms.knowledge.workspace.MAX_FILE_CHARS", 99)
    async with Files(big_py=text, a_py="window").source() as source:
        assert await places(source, query) == place


async def test_an_index_on_disk_is_taken_up_again(tmp_path: Path) -> None:
    """What did not change is searched at once, before any file is read."""
    files = Files(a_py="parser")
    async with files.source(database=tmp_path / "index.db"):
        pass
    files.reads.clear()
    async with files.source(build=False, database=tmp_path / "index.db") as source:
        assert await places(source, "parser") == ["a.py:1"]
        assert files.reads == []


async def test_a_broken_index_is_built_again(tmp_path: Path) -> None:
    files, path = Files(a_py="parser"), tmp_path / "index.db"
    path.write_bytes(b"garbage" * 999)
    async with files.source(build=False, database=path) as source:
        while not await places(source, "parser"):
            await source.wait_until_idle()
        assert await places(source, "parser") == ["a.py:1"]


async def test_it_answers_while_it_is_built() -> None:
    files = Files(**{f"f{number}_py": "parser" for number in range(64)})
    gate, reached = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    read = files.read

    def slow(path: Path) -> str | None:
        if len(files.reads) == 32:
            loop.call_soon_threadsafe(reached.set)
            gate.wait()
        return read(path)

    source = files.source_of(read=slow)
    source.refresh()
    await reached.wait()
    search = asyncio.create_task(source.find("parser", limit=99))
    gate.set()
    assert 32 <= len(await search) <= 64
    await source.wait_until_idle()
    assert len(await source.find("parser", limit=99)) == 64
    await source.close()


async def test_what_could_not_be_listed_is_tried_again() -> None:
    files = Files(a_py="parser")

    def failing() -> Iterable[Path]:
        if not files.errors:
            raise OSError("gone")
        return files.list()

    source = files.source_of(list=failing)
    source.refresh()
    await source.wait_until_idle()
    assert [str(error) for error in files.errors] == ["gone"]
    source.note_change(ROOT / "b.py")
    await source.wait_until_idle()
    assert await places(source, "parser") == ["a.py:1"]
    await source.close()


async def test_a_file_that_changes_while_it_is_read_is_read_again() -> None:
    files = Files(a_py="parser")
    loop = asyncio.get_running_loop()
    steps: list[Callable[[], None]] = []
    noted = threading.Event()

    def read(path: Path) -> str | None:
        text = files.read(path)
        if steps:
            loop.call_soon_threadsafe(steps.pop())
            noted.wait()
        return text

    source = files.source_of(read=read)

    def change() -> None:
        files.texts[ROOT / "a.py"] = "window"
        source.note_change(ROOT / "a.py")
        noted.set()

    steps.append(change)
    source.refresh()
    await source.wait_until_idle()
    assert (await places(source, "parser"), await places(source, "window")) == ([], ["a.py:1"])
    await source.close()


async def test_close_ends_the_build() -> None:
    files = Files(**{f"f{number}_py": "parser" for number in range(200)})
    source = files.source_of()
    source.refresh()
    await source.close()
    source.note_change(ROOT / "a.py")
    await source.wait_until_idle()
    assert len(files.reads) < 200

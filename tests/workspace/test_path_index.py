"""Paths are found by a few letters, at once also in a large folder, and without ignored files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sidecar.workspace.path_index import PathIndex, PathIndexes, rank_paths

N_PATHS = 50_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("src/main.py", "src/deep/main_test.py", "debug.log", "node_modules/main.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


async def test_ignored_files_are_never_found(folder: Path) -> None:
    index = PathIndex(folder)
    assert await index.find("main", 9) == ["src/main.py", "src/deep/main_test.py"]
    assert await index.find("debug", 9) == []
    assert await index.find("", 9) == [
        ".gitignore",
        "src/",
        "src/deep/",
        "src/main.py",
        "src/deep/main_test.py",
    ]


async def test_the_old_list_is_used_while_the_folder_is_walked_anew(folder: Path) -> None:
    index = PathIndex(folder)
    await index.find("x", 1)
    (folder / "new.py").write_text("")
    index.walk()
    assert await index.find("new", 9) == ["new.py"]
    assert not index.is_walking


def test_the_least_recently_used_index_is_dropped(tmp_path: Path) -> None:
    indexes = PathIndexes(n_kept=2)
    first = indexes.of(tmp_path / "a")
    indexes.of(tmp_path / "b")
    assert indexes.of(tmp_path / "a") is first
    indexes.of(tmp_path / "c")
    assert indexes.of(tmp_path / "a") is first
    assert indexes.of(tmp_path / "b") is not None


@pytest.mark.parametrize("letters", ["module_499", "pmod49py", "zzz"])
def test_of_fifty_thousand_paths_the_best_fifty_are_found(letters: str) -> None:
    paths = [f"packages/part_{n % 97}/src/module_{n}.py" for n in range(N_PATHS)]
    found = rank_paths(paths, letters, 50)
    assert len(found) == (0 if letters == "zzz" else 50)


async def test_a_walk_that_takes_long_answers_with_what_it_has(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, may_end = PathIndex(folder), asyncio.Event()
    loop = asyncio.get_running_loop()

    def walk() -> None:
        index._paths.append("src/main.py")
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()

    monkeypatch.setattr(index, "walk", walk)
    assert await index.find("main", 9) == ["src/main.py"]
    assert index.is_walking
    may_end.set()

"""FolderIndex: one folder of the workspace, by its ignore rules, as it is now, and followed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sidecar.rooms.knowledge.workspace import FolderIndex
from sidecar.workspace.contract import TextChange
from sidecar.workspace.workspace import Workspace
from watch_nothing import watch_nothing


class Bench:
    """A folder on disk, a workspace that hears of it when it is told, and a source over both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = Workspace(watch_source=watch_nothing)
        self.editor = self.workspace.editor()
        self.progress: list[tuple[int, int]] = []
        self.troubles: list[Exception] = []
        self.folder = FolderIndex(
            self.workspace,
            root,
            None,
            on_progress=lambda done, total: self.progress.append((done, total)),
            on_error=self.troubles.append,
            settle_s=0,
        )

    def put(self, name: str, text: str | bytes | None) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.workspace.disk_changed((path,))

    async def find(self, query: str) -> list[str]:
        """``path:line`` of each find, once everything told is indexed."""
        await self.folder.wait_until_idle()
        hits = await self.folder.index.find(query, limit=5)
        return [f"{hit.title}:{hit.chunk.line}" for hit in hits]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.folder.close()
    await made.workspace.close()
    assert made.troubles == []


async def test_what_is_there_is_found_but_for_what_the_rules_leave_out(bench: Bench) -> None:
    bench.put(".gitignore", "secret/\n*.log\n")
    bench.put("src/a.py", "def frobnicate():\n    pass\n")
    bench.put("secret/b.py", "frobnicate()\n")
    bench.put("trace.log", "frobnicate\n")
    bench.put("node_modules/c.js", "frobnicate()\n")
    bench.put("image.png", b"frobnicate\0\1\2")
    await bench.folder.start()
    assert await bench.find("frobnicate") == ["src/a.py:1"]
    done, total = bench.progress[-1]
    assert done == total


async def test_a_change_is_found_and_what_is_gone_is_not(bench: Bench) -> None:
    bench.put("a.py", "alpha = 1\n")
    await bench.folder.start()
    assert await bench.find("alpha") == ["a.py:1"]
    bench.put("a.py", "beta = 1\n")
    assert await bench.find("alpha") == []
    assert await bench.find("beta") == ["a.py:1"]
    bench.put("new/b.py", "gamma = 2\n")
    assert await bench.find("gamma") == ["new/b.py:1"]
    bench.put("new/b.py", None)
    assert await bench.find("gamma") == []


async def test_an_unsaved_buffer_is_found_before_its_file(bench: Bench) -> None:
    bench.put("a.py", "saved = 1\n")
    uri = (bench.root / "a.py").as_uri()
    bench.editor.open_buffer(uri, version=1, text="opened = 1\n")
    await bench.folder.start()
    assert await bench.find("opened") == ["a.py:1"]
    assert await bench.find("saved") == []
    bench.editor.change_buffer(uri, version=2, changes=[TextChange("typed = 1\n")], encoding="utf-8")
    assert await bench.find("typed") == ["a.py:1"]
    bench.editor.close_buffer(uri)
    assert await bench.find("saved") == ["a.py:1"]
    assert await bench.find("typed") == []


async def test_a_rule_that_changes_changes_what_is_found(bench: Bench) -> None:
    bench.put("a.py", "wanted = 1\n")
    await bench.folder.start()
    assert await bench.find("wanted") == ["a.py:1"]
    bench.put(".gitignore", "a.py\n")
    assert await bench.find("wanted") == []
    bench.put("a.py", "wanted = 2\n")
    assert await bench.find("wanted") == [], "a change of an ignored file does not bring it back"
    bench.put(".gitignore", "\n")
    assert await bench.find("wanted") == ["a.py:1"]


async def test_a_folder_that_is_told_is_looked_at_whole(bench: Bench) -> None:
    bench.put("sub/a.py", "gone = 1\n")
    await bench.folder.start()
    assert await bench.find("unseen") == []
    (bench.root / "sub" / "a.py").unlink()
    (bench.root / "sub").rmdir()
    (bench.root / "b.py").write_text("unseen = 1\n")
    bench.workspace.disk_changed((bench.root / "sub", bench.root))
    assert await bench.find("unseen") == ["b.py:1"]
    assert await bench.find("gone") == []


async def test_a_buffer_without_a_file_is_found_while_it_is_open(bench: Bench) -> None:
    await bench.folder.start()
    uri = (bench.root / "draft.py").as_uri()
    bench.editor.open_buffer(uri, version=1, text="unwritten = 1\n")
    assert await bench.find("unwritten") == ["draft.py:1"]
    bench.editor.close_buffer(uri)
    assert await bench.find("unwritten") == []
    bench.editor.open_buffer((bench.root.parent / "elsewhere.py").as_uri(), version=1, text="unwritten = 1\n")
    assert await bench.find("unwritten") == []


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")
async def test_a_link_out_of_the_folder_is_never_indexed(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("confidential key\n")
    folder = tmp_path / "project"
    folder.mkdir()
    bench = Bench(folder)
    (folder / "listed").symlink_to("../id_rsa")
    (folder / "a.py").write_text("confidential = True\n")
    await bench.folder.start()
    (folder / "noticed").symlink_to("../id_rsa")
    bench.workspace.disk_changed((folder / "noticed", folder / "listed"))
    assert await bench.find("confidential") == ["a.py:1"]
    await bench.folder.close()
    await bench.workspace.close()

"""The list of sessions is right whatever happened to their files, and reads only those that changed."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from file_powers import ordinary_user
from sidecar.runtime.store.place import ALL_SESSIONS, SessionQuery, key_of
from sidecar.runtime.store.session_index import SessionIndex

N_FILES = 100
LATER_NS = 10**12


@dataclass(frozen=True)
class Line:
    name: str
    text: str
    sid: str = ""
    cwd: str = ""
    title: str = ""
    updated_at: int = 0
    archived: bool = False
    kind: str | None = None
    parent: str | None = None


class Daemon:
    """One process with an index over *root*; it notes the files that it reads."""

    def __init__(self, root: Path, *, ahead_ns: int = LATER_NS) -> None:
        self.reads: list[str] = []

        def read_line(name: str) -> Line | None:
            self.reads.append(name)
            text = (root / name).read_text("utf-8")
            return None if text == "none" else Line(name, text.replace("half", "\ud83d"), sid=name)

        self.index = SessionIndex(root, Line, ".jsonl", read_line, lambda: time.time_ns() + ahead_ns)

    def list(self) -> dict[str, str]:
        self.reads.clear()
        return {line.name: line.text for line in self.index.read(ALL_SESSIONS)}


def write(root: Path, name: str, text: str) -> None:
    (root / f"{name}.jsonl").write_text(text, "utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(N_FILES):
        write(tmp_path, str(number), f"text {number}")
    return tmp_path


def truth(root: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in root.glob("*.jsonl")}


def test_a_file_is_read_once_and_again_when_it_changes(root: Path) -> None:
    daemon = Daemon(root)
    assert daemon.list() == truth(root)
    assert len(daemon.reads) == N_FILES
    lines = daemon.index.read(ALL_SESSIONS)
    assert all(new is old for new, old in zip(daemon.index.read(ALL_SESSIONS), lines, strict=True))
    write(root, "7", "another")
    assert daemon.list() == truth(root)
    assert daemon.reads == ["7.jsonl"]


def test_the_next_process_begins_with_the_index_file(root: Path) -> None:
    Daemon(root).list()
    write(root, "7", "another")
    write(root, "new", "copied in")
    (root / "8.jsonl").unlink()
    daemon = Daemon(root)
    assert daemon.list() == truth(root)
    assert sorted(daemon.reads) == ["7.jsonl", "new.jsonl"]


def test_a_file_that_was_put_in_the_place_of_another_is_read(root: Path) -> None:
    """Same name, same size, same time of its last change, as ``cp -p`` and ``mv`` leave it."""
    daemon = Daemon(root)
    daemon.list()
    old, new = root / "7.jsonl", root / "other"
    new.write_text("TEXT 7", "utf-8")
    shutil.copystat(old, new)
    os.replace(new, old)
    assert daemon.list() == Daemon(root).list() == truth(root)


def test_a_file_that_changed_a_moment_ago_is_not_taken_for_known(root: Path) -> None:
    daemon = Daemon(root, ahead_ns=-LATER_NS)
    assert daemon.list() == daemon.list() == truth(root)
    assert len(daemon.reads) == N_FILES


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-7], id="cut off"),
        pytest.param(lambda data: data.replace(b"text 7", b"text 8"), id="changed"),
        pytest.param(lambda data: b"9" + data, id="of another format"),
        pytest.param(lambda data: data.replace(b"name,text", b"name,word", 1), id="with other fields"),
        pytest.param(lambda data: b"", id="empty"),
    ],
)
def test_an_index_file_that_is_not_as_it_was_written_is_not_used(root: Path, damage: object) -> None:
    Daemon(root).list()
    file = root / "index.json"
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]  # each is a function
    daemon = Daemon(root)
    assert daemon.list() == truth(root)
    assert len(daemon.reads) == N_FILES
    assert Daemon(root).list() == truth(root)


def test_daemons_of_one_folder_are_all_right(root: Path) -> None:
    daemons = [Daemon(root) for _ in range(3)]
    for turn in range(60):
        write(root, str(turn), f"changed {turn}")
        if turn % 3 == 0:
            (root / f"{turn}.jsonl").unlink()
        assert daemons[turn % 3].list() == truth(root)
    assert [each.list() for each in (*daemons, Daemon(root))] == [truth(root)] * 4


def test_a_removed_session_leaves_the_index_file(root: Path) -> None:
    daemon = Daemon(root)
    daemon.list()
    (root / "7.jsonl").unlink()
    daemon.index.forget("7.jsonl")
    assert b'text 7"' not in (root / "index.json").read_bytes()
    (root / "8.jsonl").unlink()
    daemon.list()
    assert b'text 8"' not in (root / "index.json").read_bytes()


def test_a_session_that_is_removed_right_after_a_change_leaves_the_index_file_too(root: Path) -> None:
    Daemon(root).list()
    daemon = Daemon(root, ahead_ns=-LATER_NS)
    write(root, "7", "another")
    daemon.list()
    (root / "7.jsonl").unlink()
    daemon.index.forget("7.jsonl")
    assert b'"7.jsonl"' not in (root / "index.json").read_bytes()


def test_a_line_that_json_cannot_hold_and_a_file_without_a_line_are_right_all_the_same(root: Path) -> None:
    write(root, "none", "none")
    write(root, "half", "half")
    expected = truth(root) | {"half.jsonl": "\ud83d"}
    del expected["none.jsonl"]
    assert Daemon(root).list() == expected
    again = Daemon(root)
    assert again.list() == expected
    assert again.reads == ["half.jsonl"]


@ordinary_user
def test_a_folder_that_cannot_be_written_is_listed(root: Path) -> None:
    root.chmod(0o500)
    try:
        assert Daemon(root).list() == truth(root)
    finally:
        root.chmod(0o700)


def test_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    assert Daemon(tmp_path / "none").list() == {}
    assert not (tmp_path / "none").exists()


def test_a_further_page_looks_at_its_own_files_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon(root)
    first = daemon.index.read(SessionQuery(limit=10))
    looked: list[str] = []
    look = os.stat

    def count(path: Path) -> os.stat_result:
        looked.append(path.name)
        return look(path)

    monkeypatch.setattr("sidecar.runtime.store.session_index.os.stat", count)
    monkeypatch.setattr("sidecar.runtime.store.session_index.list_states", None)
    second = daemon.index.read(SessionQuery(limit=10, after=key_of(first[-1])))
    assert looked == [line.name for line in second]
    assert not {line.name for line in first} & {line.name for line in second}

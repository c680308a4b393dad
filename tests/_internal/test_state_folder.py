"""The state directory belongs to its user alone, whatever made it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from sidecar._internal.state_folder import (
    close_state,
    close_state_folders,
    make_private_folder,
    replace_state_file,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.lstat().st_mode) for path in paths]


@pytest.fixture
def open_home(tmp_path: Path) -> Path:
    """A state directory that others can read, as an earlier version left it."""
    home = tmp_path / "home"
    for folder in (home / "sessions", home / "knowledge" / "project-1"):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "text").write_text("private")
        (folder / "text").chmod(0o644)
    (home / "knowledge").chmod(0o755)
    home.chmod(0o755)
    return home


def test_a_new_folder_and_its_parents_are_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    make_private_folder(folder)
    make_private_folder(folder)
    assert modes(folder, folder.parent, folder.parent.parent) == [0o700] * 3


def test_a_new_folder_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    make_private_folder(tmp_path / "home" / "sessions")
    assert synced == [tmp_path.stat().st_ino, (tmp_path / "home").stat().st_ino]


def test_a_file_in_the_place_of_a_parent_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_private_folder(tmp_path / "file" / "sessions")


def test_the_folders_of_an_earlier_version_are_closed(open_home: Path) -> None:
    close_state_folders(open_home)
    assert modes(open_home / "sessions", open_home / "knowledge") == [0o700, 0o700]


def test_everything_in_them_can_be_closed(open_home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(mode=0o644)
    (open_home / "sessions" / "link").symlink_to(outside)
    assert close_state(open_home) == (6, [])
    assert modes(outside) == [0o644]
    assert modes(open_home, *(open_home / "knowledge" / "project-1").rglob("*")) == [0o700, 0o600]
    assert close_state(open_home) == (0, [])


def test_what_cannot_be_closed_is_named(open_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    n_taken, still_open = close_state(open_home)
    assert (n_taken, still_open[0]) == (0, open_home)


def test_the_home_folder_of_the_user_is_left_alone(open_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: open_home)
    assert close_state(open_home) == (5, [])
    assert modes(open_home) == [0o755]


def test_what_a_crash_left_of_a_replaced_file_is_removed_after_some_time(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    for name, time in (("old", 1_000), ("new", 2**32)):
        (tmp_path / f".index.json-{name}").touch()
        os.utime(tmp_path / f".index.json-{name}", (time, time))
    (tmp_path / "index.json-other").touch()
    replace_state_file(path, b"data")
    assert path.read_bytes() == b"data"
    assert {each.name for each in tmp_path.iterdir()} == {"index.json", ".index.json-new", "index.json-other"}

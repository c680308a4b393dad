"""Writing: whole or not at all, and only over what was read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from changed_files import refused
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.disk_write import write_text
from sidecar.workspace.files import READ_LIMIT_BYTES, DiskText, read_text, text_hash

posix_only = pytest.mark.skipif(os.name == "nt", reason="POSIX modes")


def write(path: Path, text: str, *, over: str | None) -> DiskText:
    expected = None if over is None else text_hash(over)
    return write_text(path, text, expected, READ_LIMIT_BYTES)


def check_refused(path: Path, text: str, problem: str, *, over: str | None) -> None:
    before = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else None
    content = path.read_bytes() if path.is_file() else None
    with refused(problem):
        write(path, text, over=over)
    if before is not None:
        assert sorted(entry.name for entry in path.parent.iterdir()) == before
    assert (path.read_bytes() if path.is_file() else None) == content


def test_a_temporary_file_that_a_killed_process_left_is_removed_by_the_next_write(tmp_path: Path) -> None:
    """That of a write under way, and files of other names, stay."""
    left, under_way, other = (
        tmp_path / name
        for name in (f".sidecar-{'a' * 32}.tmp", f".sidecar-{'b' * 32}.tmp", ".sidecar-notes.tmp")
    )
    for each in (left, under_way, other):
        each.write_text("half")
    for each in (left, other):
        os.utime(each, (1, 1))
    write(tmp_path / "a", "x", over=None)
    write(tmp_path / "a", "y", over="x")
    assert sorted(each.name for each in tmp_path.iterdir()) == [under_way.name, other.name, "a"]


def test_a_new_file_in_new_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.txt"
    assert write(path, "x\r\n", over=None) == DiskText("x\r\n", text_hash("x\r\n"), 3, "utf-8")
    assert path.read_bytes() == b"x\r\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["c.txt"]


@posix_only
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write(tmp_path / "ours", "x", over=None)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")}
    assert len(modes) == 1


@posix_only
def test_mode_is_kept_and_links_are_followed(tmp_path: Path) -> None:
    script, link = tmp_path / "script", tmp_path / "link"
    script.write_text("old")
    script.chmod(0o750)
    link.symlink_to("script")
    write(link.resolve(), "new", over="old")
    assert (link.is_symlink(), script.read_text(), stat.S_IMODE(script.stat().st_mode)) == (
        True,
        "new",
        0o750,
    )


@pytest.mark.parametrize(
    ("raw", "after"),
    [
        pytest.param(b"\xef\xbb\xbfold", b"\xef\xbb\xbfnew", id="UTF-8 mark"),
        pytest.param(b"\xff\xfeo\0l\0d\0", b"\xff\xfen\0e\0w\0", id="UTF-16"),
        pytest.param("caf\xe9 old\n".encode("latin-1"), "caf\xe9 new\n".encode("latin-1"), id="Latin-1"),
        pytest.param("你好，世界old\n".encode("gbk"), "你好，世界new\n".encode("gbk"), id="GBK"),
    ],
)
def test_mark_and_encoding_are_kept(tmp_path: Path, raw: bytes, after: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(raw)
    before = read_text(path).text
    assert write(path, before.replace("old", "new"), over=before).text == before.replace("old", "new")
    assert path.read_bytes() == after
    write(tmp_path / "marked", "\ufeffx", over=None)
    assert (tmp_path / "marked").read_bytes() == b"\xef\xbb\xbfx"


def test_changed_since_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("theirs")
    check_refused(path, "ours", "changedSinceRead", over="old")
    check_refused(path, "ours", "changedSinceRead", over=None)
    check_refused(tmp_path / "gone", "ours", "changedSinceRead", over="old")


def test_grown_past_the_limit_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with refused("changedSinceRead"):
        write(path, "x", over="old")


@pytest.mark.parametrize("over", ["old", None], ids=["over a file", "a new file"])
def test_a_change_while_writing_is_seen_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: str | None
) -> None:
    path = tmp_path / "f"
    if over is not None:
        path.write_text(over)
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        real_fsync(descriptor)
        path.write_text("theirs")

    monkeypatch.setattr(os, "fsync", fsync)
    with refused("changedSinceRead"):
        write(path, "ours", over=over)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("f", "theirs")]


@posix_only
def test_a_file_that_appears_at_the_last_moment_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    real_link = os.link

    def link(
        source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        path.write_text("theirs")
        real_link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "link", link)
    with refused("changedSinceRead"):
        write(path, "ours", over=None)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("f", "theirs")]


@posix_only
def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str, **folders: int) -> None:
        raise OSError(errno.EPERM, "not supported")

    monkeypatch.setattr(os, "link", link)
    write(tmp_path / "f", "x", over=None)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("f", "x")]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "f"
    path.write_text("old")
    check_refused(path, "new", "diskFull", over="old")


def test_a_folder_and_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    check_refused(tmp_path, "x", "isDirectory", over=None)
    check_refused(tmp_path / "f" / "g", "x", "unwritable", over=None)


def test_a_binary_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\0b")
    check_refused(tmp_path / "f", "x", "binary", over=None)


def test_a_lone_surrogate_cannot_be_written(tmp_path: Path) -> None:
    check_refused(tmp_path / "f", "a\ud83d", "unwritable", over=None)


def test_a_read_only_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write everything
    check_refused(path, "new", "unwritable", over="old")


def test_a_character_that_the_encoding_of_the_file_has_not(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(FileAccessError, match="cp1252, has no '→'"):
        write_text(path, "café →", text_hash("café"), READ_LIMIT_BYTES)
    assert path.read_bytes() == b"caf\xe9"

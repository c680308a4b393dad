"""Reading from the disk: what is text, and what is refused without hanging."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from changed_files import refused
from file_powers import ordinary_user, swap
from sidecar.workspace import files
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.disk_write import write_text
from sidecar.workspace.encodings import encode_text
from sidecar.workspace.files import (
    CAN_HOLD,
    READ_LIMIT_BYTES,
    DiskText,
    hold_file,
    hold_folder,
    read_text,
    text_hash,
)

posix_only = pytest.mark.skipif(os.name == "nt", reason="POSIX file kinds, and links without a privilege")


def check_refused(path: Path, problem: str, *, limit_bytes: int = READ_LIMIT_BYTES) -> FileAccessError:
    with refused(problem) as caught:
        read_text(path, limit_bytes)
    assert str(path) in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("raw", "text", "codec"),
    [
        pytest.param(b"", "", "utf-8", id="empty"),
        pytest.param("h\u00e9\r\n\u2028".encode(), "h\u00e9\r\n\u2028", "utf-8", id="UTF-8, line ends kept"),
        pytest.param(b"\xef\xbb\xbfa", "a", "utf-8-sig", id="UTF-8 with a mark"),
        pytest.param(b"\xff\xfea\x00", "a", "utf-16-le", id="UTF-16 little"),
        pytest.param(b"\xfe\xff\x00a", "a", "utf-16-be", id="UTF-16 big"),
        pytest.param(b"a" * 8192 + b"\0", "a" * 8192 + "\0", "utf-8", id="a NUL further on is text"),
    ],
)
def test_text(tmp_path: Path, raw: bytes, text: str, codec: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(raw)
    assert read_text(path) == DiskText(text, text_hash(text), len(raw), codec)
    assert encode_text(text, codec) == raw


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"ab\0cd", id="NUL near the start"),
        pytest.param(b"caf\xe9\x01", id="a control character"),
        pytest.param(bytes(range(128, 256)) * 9, id="every byte above ASCII"),
        pytest.param(b"\xff\xfea", id="half a UTF-16 unit"),
        pytest.param(b"\xff\xfe\x00\x00a\x00\x00\x00", id="UTF-32"),
    ],
)
def test_binary(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(raw)
    check_refused(path, "binary")


def test_a_sparse_gigabyte_costs_one_look(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert "1073741824 bytes" in check_refused(path, "tooLarge").message


def test_the_limit_is_inclusive(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    assert read_text(path, 3).text == "abc"
    check_refused(path, "tooLarge", limit_bytes=2)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def make_device_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@posix_only
@pytest.mark.parametrize(
    ("make", "what"),
    [
        pytest.param(make_fifo, "a named pipe", id="named pipe"),
        pytest.param(make_socket, "a socket", id="socket"),
        pytest.param(make_device_link, "a device", id="device"),
    ],
)
def test_what_is_no_file_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], what: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's address is short
    make(tmp_path / "special")
    assert what in check_refused(tmp_path / "special", "unreadable").message


def test_a_folder(tmp_path: Path) -> None:
    assert check_refused(tmp_path, "isDirectory").hint == "list it instead"


@pytest.mark.parametrize("name", ["none", "file/below"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    check_refused(tmp_path / name, "notFound")


@posix_only
def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "circle" in check_refused(tmp_path / "a", "unreadable").message


@posix_only
@ordinary_user
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0)
    check_refused(path, "unreadable")


def test_a_name_that_is_no_name(tmp_path: Path) -> None:
    check_refused(tmp_path / "a\0b", "unreadable")
    check_refused(tmp_path / ("x" * 300), "unreadable")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with ``in/sub/f``, beside an ``out`` with the same."""
    root = Path(os.path.realpath(tmp_path))
    for place in ("in", "out"):
        (root / place / "sub").mkdir(parents=True)
        (root / place / "sub" / "f").write_text(f"{place}side")
    return root


@pytest.fixture(params=["by handle", "by path"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the system can open files below a folder, or must resolve the path again."""
    if request.param == "by path":
        monkeypatch.setattr(files, "CAN_HOLD", False)
    return str(request.param)


USES: dict[str, Callable[[Path], object]] = {
    "read": lambda path: read_text(path, follow_links=False),
    "write": lambda path: write_text(path, "ours", text_hash("inside"), READ_LIMIT_BYTES),
    "create": lambda path: write_text(path.with_name("new"), "ours", None, READ_LIMIT_BYTES),
    "create below": lambda path: write_text(path.parent / "a" / "b", "ours", None, READ_LIMIT_BYTES),
}


@posix_only
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("swapped", ["in", "in/sub"])
def test_a_folder_that_became_a_link_is_not_followed(means: str, tree: Path, swapped: str, use: str) -> None:
    path = tree / "in" / "sub" / "f"
    swap(tree / swapped, tree / swapped.replace("in", "out"))
    with refused("changedSinceRead"):
        USES[use](path)
    assert [(each.name, each.read_text()) for each in (tree / "out" / "sub").iterdir()] == [("f", "outside")]


@posix_only
@pytest.mark.parametrize("use", ["read", "write"])
def test_a_file_that_became_a_link_is_not_followed(tree: Path, use: str) -> None:
    swap(tree / "in" / "sub" / "f", tree / "out" / "sub" / "f")
    with pytest.raises(FileAccessError):
        USES[use](tree / "in" / "sub" / "f")
    assert (tree / "out" / "sub" / "f").read_text() == "outside"


@pytest.mark.skipif(not CAN_HOLD, reason="this system cannot open files below a folder")
def test_a_folder_that_is_held_stays_the_same_whatever_takes_its_name(tree: Path) -> None:
    with hold_file(tree / "in" / "sub" / "f") as (name, folder):
        swap(tree / "in" / "sub", tree / "out" / "sub")
        with open(os.open(name, os.O_RDONLY, dir_fd=folder)) as file:
            assert file.read() == "inside"


def test_missing_folders_are_created_on_request_alone(means: str, tree: Path) -> None:
    with hold_folder(tree / "a" / "b", create=True):
        assert (tree / "a" / "b").is_dir()
    if means == "by handle" and CAN_HOLD:
        with pytest.raises(FileNotFoundError), hold_folder(tree / "c"):
            pass
    assert not (tree / "c").exists()


def test_a_file_is_no_folder(means: str, tree: Path) -> None:
    with (
        pytest.raises((NotADirectoryError, FileExistsError)),
        hold_folder(tree / "in" / "sub" / "f" / "g", create=True),
    ):
        pass

"""Reading from the disk: what is text, and what is refused without hanging."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from file_powers import ordinary_user
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.encodings import encode_text
from sidecar.workspace.files import READ_LIMIT_BYTES, DiskText, read_text, text_hash

posix_only = pytest.mark.skipif(os.name == "nt", reason="POSIX file kinds")


def check_refused(path: Path, problem: str, *, limit_bytes: int = READ_LIMIT_BYTES) -> FileAccessError:
    with pytest.raises(FileAccessError) as caught:
        read_text(path, limit_bytes)
    assert caught.value.problem == problem
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

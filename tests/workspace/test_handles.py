"""A path that was resolved is opened as that path, whatever is swapped for a link meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.workspace import handles
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.disk_write import write_text
from sidecar.workspace.files import READ_LIMIT_BYTES, read_text, text_hash
from sidecar.workspace.handles import CAN_HOLD, hold_file, hold_folder
from swapped_folders import swap

posix_only = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


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
        monkeypatch.setattr(handles, "CAN_HOLD", False)
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
    with pytest.raises(FileAccessError) as caught:
        USES[use](path)
    assert caught.value.problem == "changedSinceRead"
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

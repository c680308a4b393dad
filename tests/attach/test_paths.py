"""The folder of the shared daemon is this user's alone, or it is not used."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.attach.paths import SOCKET_PATH_BYTES, AttachError, DaemonPaths, check_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_created_folders_are_for_their_user_alone(home: Path) -> None:
    paths = DaemonPaths(home)
    assert not paths.has_socket()
    paths.make()
    paths.make()
    assert (mode(home), mode(paths.folder)) == (0o700, 0o700)


def test_a_state_directory_that_others_may_read_is_left_as_it_is(home: Path) -> None:
    home.mkdir(mode=0o755)
    DaemonPaths(home).make()
    assert (mode(home), mode(home / "run")) == (0o755, 0o700)


def opened_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o750)


def linked_elsewhere(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(opened_to_others, "others can enter .*mode 750", id="others may enter"),
        pytest.param(linked_elsewhere, "links are not followed", id="a link instead of it"),
        pytest.param(lambda folder: folder.write_text(""), "is not a folder", id="a file instead of it"),
    ],
)
def test_a_folder_that_is_not_private_is_refused(
    home: Path, prepare: Callable[[Path], None], message: str
) -> None:
    home.mkdir()
    paths = DaemonPaths(home)
    prepare(paths.folder)
    with pytest.raises(AttachError, match=message):
        paths.make()


def test_a_folder_of_another_user_is_refused(paths: DaemonPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(AttachError, match=f"belongs to user {owner}, not to {owner + 1}"):
        check_private(paths.folder)


def test_a_socket_in_a_folder_that_others_can_enter_is_not_tried(paths: DaemonPaths) -> None:
    paths.socket.write_text("")
    paths.folder.chmod(0o777)
    with pytest.raises(AttachError, match="others can enter"):
        paths.has_socket()


def test_a_state_directory_that_cannot_be_made_is_named(home: Path) -> None:
    home.write_text("")
    with pytest.raises(AttachError, match=f"cannot make the state directory {home}"):
        DaemonPaths(home).make()


def test_every_way_to_a_state_directory_leads_to_the_same_files(home: Path) -> None:
    home.mkdir()
    other = home.with_name("other")
    other.symlink_to(home)
    assert DaemonPaths(other).socket == DaemonPaths(home).socket


def test_a_long_path_has_its_socket_in_a_short_folder(home: Path) -> None:
    long = home / ("x" * 90)
    paths = DaemonPaths(long)
    assert paths.socket.parent == Path(f"/tmp/sidecar-{os.geteuid()}")
    assert paths.socket != DaemonPaths(home / ("y" * 90)).socket
    assert len(os.fsencode(paths.socket)) <= SOCKET_PATH_BYTES
    paths.make()
    assert mode(paths.socket.parent) == 0o700

"""The folder of the shared daemon is this user's alone, or it is not used."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.attach.errors import AttachError
from sidecar.attach.place import SOCKET_PATH_BYTES, Place, check_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_for_its_user_alone(home: Path) -> None:
    place = Place(home)
    assert not place.exists()
    place.make()
    place.make()
    assert (mode(home), mode(place.folder)) == (0o700, 0o700)


def test_a_state_directory_that_others_may_read_is_left_as_it_is(home: Path) -> None:
    home.mkdir(mode=0o755)
    Place(home).make()
    assert (mode(home), mode(home / "run")) == (0o755, 0o700)


def opened_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o750)


def linked_elsewhere(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        pytest.param(opened_to_others, "others can enter .*mode 750", id="others may enter"),
        pytest.param(linked_elsewhere, "links are not followed", id="a link in its place"),
        pytest.param(lambda folder: folder.write_text(""), "is no folder", id="a file in its place"),
    ],
)
def test_a_folder_that_is_not_private_is_refused(
    home: Path, prepare: Callable[[Path], None], said: str
) -> None:
    home.mkdir()
    place = Place(home)
    prepare(place.folder)
    with pytest.raises(AttachError, match=said):
        place.make()


def test_a_folder_of_another_user_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(AttachError, match=f"belongs to user {owner}, not to {owner + 1}"):
        check_private(place.folder)


def test_a_socket_in_a_folder_that_others_can_enter_is_not_tried(place: Place) -> None:
    place.socket.write_text("")
    place.folder.chmod(0o777)
    with pytest.raises(AttachError, match="others can enter"):
        place.exists()


def test_a_state_directory_that_cannot_be_made_is_named(home: Path) -> None:
    home.write_text("")
    with pytest.raises(AttachError, match=f"cannot make the state directory {home}"):
        Place(home).make()


def test_every_way_to_a_state_directory_leads_to_one_place(home: Path) -> None:
    home.mkdir()
    other = home.with_name("other")
    other.symlink_to(home)
    assert Place(other).socket == Place(home).socket


def test_a_long_path_has_its_socket_in_a_short_folder(home: Path) -> None:
    long = home / ("x" * 90)
    place = Place(long)
    assert place.socket.parent == Path(f"/tmp/sidecar-{os.geteuid()}")
    assert place.socket != Place(home / ("y" * 90)).socket
    assert len(os.fsencode(place.socket)) <= SOCKET_PATH_BYTES
    place.make()
    assert mode(place.socket.parent) == 0o700

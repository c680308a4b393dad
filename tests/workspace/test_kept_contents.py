"""Kept contents: any bytes come back, within bounds, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties import cases
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.disk_write import write_text
from sidecar.workspace.files import READ_LIMIT_BYTES, text_hash
from sidecar.workspace.kept_contents import KeptContents

RAW = st.one_of(
    st.binary(max_size=300),
    st.text(st.characters(codec="utf-8"), max_size=100).map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    st.lists(st.sampled_from([b"a", b"\r\n", b"\n", b"\r", b"caf\xe9"]), max_size=20).map(b"".join),
)


def sid_of(home: Path, sid: str) -> list[str]:
    return sorted(path.name for path in (home / "checkpoints" / sid).glob("*"))


@settings(cases(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=RAW, mode=st.sampled_from([0o600, 0o644, 0o755, 0o640]))
def test_any_bytes_and_modes_come_back(tmp_path: Path, raw: bytes, mode: int) -> None:
    contents, path = KeptContents(tmp_path), tmp_path / "a.txt"
    path.unlink(missing_ok=True)
    path.write_bytes(raw)
    path.chmod(mode)
    found = contents.look(path)
    name = contents.keep("s", found.raw)
    path.write_text("the model's")
    path.chmod(0o666)
    kept = contents.read("s", name, mode=found.mode, is_text=False)
    assert kept == found
    write_text(path, kept.text or "", text_hash("the model's"), READ_LIMIT_BYTES, kept)
    assert path.read_bytes() == raw
    if os.name != "nt":
        assert path.stat().st_mode & 0o777 == mode


def test_a_content_lies_once_in_a_private_folder_and_goes_with_its_session(tmp_path: Path) -> None:
    contents = KeptContents(tmp_path)
    assert contents.keep("s", b"one") == contents.keep("s", b"one")
    (name,) = sid_of(tmp_path, "s")
    if os.name != "nt":
        assert (tmp_path / "checkpoints").stat().st_mode & 0o077 == 0
        assert (tmp_path / "checkpoints" / "s" / name).stat().st_mode & 0o077 == 0
    contents.fork("s", "t")
    contents.remove("s")
    assert sid_of(tmp_path, "s") == []
    kept = contents.read("t", name, mode=None, is_text=False)
    assert kept is not None
    assert kept.raw == b"one"


def test_the_oldest_contents_go_first_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    contents = KeptContents(tmp_path, most_bytes=10)
    names = []
    for at, raw in enumerate([b"first", b"other", b"third"]):
        names.append(contents.keep("s", raw))
        os.utime(tmp_path / "checkpoints" / "s" / names[-1], (2e9 + at, 2e9 + at))
    contents.keep("t", b"newer")
    contents.keep("t", b"newest")
    assert contents.read("s", names[0], mode=None, is_text=False) is None
    (tmp_path / "checkpoints" / "s" / names[2]).write_bytes(b"broken")
    assert contents.read("s", names[2], mode=None, is_text=False) is None


def test_contents_older_than_the_bound_go(tmp_path: Path) -> None:
    name = KeptContents(tmp_path).keep("s", b"old")
    os.utime(tmp_path / "checkpoints" / "s" / name, (1e9, 1e9))
    contents = KeptContents(tmp_path)
    contents.keep("t", b"new")
    assert contents.read("s", name, mode=None, is_text=False) is None


def test_a_file_over_the_bound_is_named_and_a_link_is_never_followed(tmp_path: Path) -> None:
    contents, path = KeptContents(tmp_path, limit_bytes=3), tmp_path / "a.txt"
    path.write_bytes(b"four")
    with pytest.raises(FileAccessError, match="the limit is 3"):
        contents.look(path)
    if os.name != "nt":
        (tmp_path / "link").symlink_to(path)
        with pytest.raises(FileAccessError):
            contents.look(tmp_path / "link")


def test_a_content_that_is_not_here_may_be_kept_elsewhere(tmp_path: Path) -> None:
    contents, empty = KeptContents(tmp_path), KeptContents(tmp_path / "other").keep("s", b"")
    name = KeptContents(tmp_path / "other").keep("s", b"there")
    elsewhere = {empty: b"", name: b"there"}
    assert contents.read("s", name, mode=None, is_text=False) is None
    contents.read_elsewhere = lambda sid, name: elsewhere.get(name)
    for each, raw in elsewhere.items():
        found = contents.read("s", each, mode=0o600, is_text=False)
        assert found is not None
        assert (found.raw, found.mode) == (raw, 0o600)
    elsewhere[name] = b"damaged"
    assert contents.read("s", name, mode=None, is_text=False) is None

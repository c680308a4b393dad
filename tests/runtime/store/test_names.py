"""No session id leaves the store's folder, and every id comes back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.errors import InvalidInput
from sidecar.runtime.store.session_store import session_id_of, stem_of


@pytest.mark.parametrize(
    ("session_id", "stem"),
    [
        pytest.param("s-1_a.b", "s-1_a.b", id="a safe id is its own name"),
        pytest.param("../escape", "%2E%2E%2Fescape", id="no way up"),
        pytest.param("/etc/passwd", "%2Fetc%2Fpasswd", id="no absolute path"),
        pytest.param("..\\up", "%2E%2E%5Cup", id="no way up on Windows"),
        pytest.param("CON", "%43ON", id="no device"),
        pytest.param("nul.txt", "%6Eul%2Etxt", id="no device with an extension"),
        pytest.param(".hidden", "%2Ehidden", id="no hidden file"),
        pytest.param("dot.", "%64ot%2E", id="no dot at the end"),
        pytest.param("a\0b", "%61%00b", id="no NUL"),
        pytest.param("", "%", id="nothing"),
        pytest.param("%61", "%2561", id="what looks escaped"),
        pytest.param("a" * 129, "%61" + "a" * 128, id="long"),
        pytest.param("é😀", "%C3%A9%F0%9F%98%80", id="beyond ASCII"),
    ],
)
def test_any_id_becomes_a_safe_name(session_id: str, stem: str) -> None:
    assert stem_of(session_id) == stem
    assert session_id_of(stem) == session_id


def test_an_absurd_id_is_refused() -> None:
    with pytest.raises(InvalidInput, match="1000 characters is too long"):
        stem_of("/" * 1000)


@pytest.mark.parametrize("stem", ["no id of ours", "%2e%2e", "%ff", "%zz", "a%62", "x" * 300])
def test_names_that_no_id_has_are_none(stem: str) -> None:
    assert session_id_of(stem) is None


@given(st.text(st.characters(), max_size=20) | st.from_regex(r"[\w.\\/%-]{1,8}", fullmatch=True))
def test_every_id_stays_in_the_folder_and_comes_back(session_id: str) -> None:
    stem = stem_of(session_id)
    assert session_id_of(stem) == session_id
    assert re.fullmatch(r"[A-Za-z0-9._%-]+", stem)
    assert Path("root", stem).resolve().parent == Path("root").resolve()

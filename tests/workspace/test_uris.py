"""File URIs, in every spelling editors use."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.workspace.uris import decode_file_uri, path_to_uri, uri_to_path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        pytest.param("file:///a/b%20c.py", "/a/b c.py", id="percent escapes"),
        pytest.param("file:///a/%C3%A9", "/a/\u00e9", id="UTF-8"),
        pytest.param("FILE:///a", "/a", id="scheme in capitals"),
        pytest.param("file://localhost/a", "/a", id="localhost is no host"),
        pytest.param("file://server/share/a", None, id="a host is unknown here"),
        pytest.param("file:///a%00b", None, id="NUL"),
        pytest.param("file:a", None, id="no absolute path"),
        pytest.param("untitled:Untitled-1", None, id="not a file"),
        pytest.param("file://[bad", None, id="malformed"),
    ],
)
def test_posix(uri: str, path: str | None) -> None:
    assert decode_file_uri(uri, windows=False) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        pytest.param("file:///c%3A/a/b", "c:/a/b", id="the colon escaped, as VS Code does"),
        pytest.param("file:///C:/a/b", "C:/a/b", id="plain drive"),
        pytest.param("file://server/share/a", "//server/share/a", id="network share"),
    ],
)
def test_windows(uri: str, path: str) -> None:
    assert decode_file_uri(uri, windows=True) == path


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "a b#?%\u00e9\U0001f600.py"
    assert uri_to_path(path_to_uri(path)) == path

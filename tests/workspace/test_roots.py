"""Where a path leads, and whether that is inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.workspace.contract import FileProblem
from sidecar.workspace.roots import ResolvedPath, resolve_path

posix_only = pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a root with a file, beside a folder outside of it."""
    (tmp_path / "root" / "src").mkdir(parents=True)
    (tmp_path / "root" / "src" / "a.py").write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    return tmp_path.resolve()


def check(tree: Path, spelled: str, leads_to: str, *, inside: bool) -> None:
    root = tree / "root"
    assert resolve_path(spelled, root / "src", [root]) == ResolvedPath(tree / leads_to, inside)


@pytest.mark.parametrize(
    ("spelled", "leads_to", "inside"),
    [
        pytest.param("a.py", "root/src/a.py", True, id="relative to cwd"),
        pytest.param(".", "root/src", True, id="cwd itself"),
        pytest.param("..", "root", True, id="the root itself"),
        pytest.param("./x/../a.py", "root/src/a.py", True, id="dots"),
        pytest.param("new/dir/b.py", "root/src/new/dir/b.py", True, id="not there yet"),
        pytest.param("../../outside/secret", "outside/secret", False, id="climbs out"),
        pytest.param("../../root-2/x", "root-2/x", False, id="a longer name is another folder"),
    ],
)
def test_relative(tree: Path, spelled: str, leads_to: str, inside: bool) -> None:
    check(tree, spelled, leads_to, inside=inside)


def test_absolute_uri_and_home(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tree / "root" / "src" / "a.py"
    monkeypatch.setenv("HOME", str(tree / "root"))
    monkeypatch.setenv("USERPROFILE", str(tree / "root"))
    for spelled in (str(target), target.as_uri(), "~/src/a.py"):
        check(tree, spelled, "root/src/a.py", inside=True)


@posix_only
def test_links_are_followed_before_judging(tree: Path) -> None:
    src = tree / "root" / "src"
    (src / "out").symlink_to(tree / "outside")
    (src / "back").symlink_to(tree / "root")
    (tree / "outside" / "in").symlink_to(src)
    check(tree, "out/secret", "outside/secret", inside=False)
    check(tree, "out/new-file", "outside/new-file", inside=False)
    check(tree, "back/src/a.py", "root/src/a.py", inside=True)
    check(tree, str(tree / "outside" / "in" / "a.py"), "root/src/a.py", inside=True)


@pytest.mark.parametrize("spelled", ["", "a\0b", "file://elsewhere.example/a", "file:relative"])
def test_what_names_no_file(tree: Path, spelled: str) -> None:
    if os.name == "nt" and "elsewhere" in spelled:
        pytest.skip("a host is a network share on Windows")
    with pytest.raises(FileProblem) as caught:
        resolve_path(spelled, tree, [tree])
    assert caught.value.problem == "notFound"

"""File URIs in every spelling of editors, paths behind links, and project files that nobody asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from changed_files import refused
from sidecar.workspace.buffers import Editor
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.paths import (
    ResolvedPath,
    decode_file_uri,
    path_to_uri,
    read_project_text,
    resolve_path,
    uri_to_path,
)
from sidecar.workspace.workspace import Workspace

posix_only = pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")
LIMIT = 1_000


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        pytest.param("file:///a/b%20c.py", "/a/b c.py", id="percent escapes"),
        pytest.param("file:///a/%C3%A9", "/a/\u00e9", id="UTF-8"),
        pytest.param("file:///a/\ud83d", "/a/\udced\udca0\udcbd", id="half a surrogate pair"),
        pytest.param("file:///a/%ED%A0%BD", "/a/\udced\udca0\udcbd", id="the same, escaped"),
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


@pytest.mark.parametrize("spelled", ["@a.txt", "`a.txt`", '"a.txt"', "a.txt\n", " a.txt", "./a.txt"])
def test_marks_around_a_path_that_is_there_are_not_part_of_it(tmp_path: Path, spelled: str) -> None:
    (tmp_path / "a.txt").touch()
    assert resolve_path(spelled, tmp_path, ()).path == (tmp_path / "a.txt").resolve()
    (tmp_path / spelled).touch()
    assert resolve_path(spelled, tmp_path, ()).path == (tmp_path / spelled).resolve()


@posix_only
def test_separators_of_windows_lead_to_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    assert resolve_path("src\\a.py", tmp_path, ()).path == (tmp_path / "src/a.py").resolve()
    assert resolve_path("src\\b.py", tmp_path, ()).path.name == "src\\b.py"


@pytest.mark.parametrize("spelled", ["", "a\0b", "a\ud800b", "file://elsewhere.example/a", "file:relative"])
def test_what_names_no_file(tree: Path, spelled: str) -> None:
    if os.name == "nt" and "elsewhere" in spelled:
        pytest.skip("a host is a network share on Windows")
    with refused("notFound"):
        resolve_path(spelled, tree, [tree])


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def link_of_a_folder(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(path.parent.parent.parent)
    (path.parent.parent.parent / path.name).write_text("secret")


@posix_only
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(link_to("/etc/passwd"), "outsideRoots", id="a link out of the project"),
        pytest.param(link_to("../../AGENTS.md"), "outsideRoots", id="a relative link out of the project"),
        pytest.param(link_to("/dev/zero"), "outsideRoots", id="a link to a device"),
        pytest.param(link_to("AGENTS.md"), "unreadable", id="a link in a circle"),
        pytest.param(link_to("gone"), "notFound", id="a link to nothing"),
        pytest.param(link_of_a_folder, "outsideRoots", id="a folder above it that is a link"),
        pytest.param(lambda path: os.mkfifo(path), "unreadable", id="a pipe"),
        pytest.param(lambda path: path.mkdir(), "isDirectory", id="a folder"),
        pytest.param(lambda path: path.write_bytes(b"x" * 1_001), "tooLarge", id="one byte too many"),
        pytest.param(lambda path: path.write_bytes(b"\xff\0"), "binary", id="no text"),
        pytest.param(lambda path: None, "notFound", id="nothing"),
    ],
)
async def test_what_is_no_plain_file_of_the_project_is_refused(
    workspace: Workspace, root: Path, make: Callable[[Path], None], problem: str
) -> None:
    project = root / "project"
    path = project / "folder" / "AGENTS.md"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(FileAccessError) as read:
        read_project_text(path, (project,), LIMIT)
    with pytest.raises(FileAccessError) as viewed:
        await workspace.view_project_file(path, (project,), limit_bytes=LIMIT)
    assert (read.value.problem, viewed.value.problem) == (problem, problem)


@posix_only
async def test_a_link_within_the_project_is_followed_also_from_a_root_that_is_a_link(
    workspace: Workspace, root: Path
) -> None:
    project, alias = root / "project", root / "alias"
    project.mkdir()
    alias.symlink_to(project)
    (project / "rules.md").write_text("be brief")
    (project / "AGENTS.md").symlink_to("rules.md")
    view = await workspace.view_project_file(alias / "AGENTS.md", (alias,), limit_bytes=LIMIT)
    assert (view.text, view.path) == ("be brief", project / "rules.md")


async def test_the_buffer_of_an_editor_counts_before_the_file(
    workspace: Workspace, editor: Editor, root: Path
) -> None:
    path = root / "AGENTS.md"
    editor.open_buffer(path.as_uri(), version=1, text="unsaved")
    view = await workspace.view_project_file(path, (root,), limit_bytes=LIMIT)
    assert (view.text, view.source) == ("unsaved", "buffer")

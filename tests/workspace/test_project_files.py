"""Files of a project that nobody asked for: inside after all links are followed, regular, bounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.workspace.contract import FileProblem
from sidecar.workspace.editor import Editor
from sidecar.workspace.project_files import read_project_text
from sidecar.workspace.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes need POSIX")

LIMIT = 1_000


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def link_of_a_folder(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(path.parent.parent.parent)
    (path.parent.parent.parent / path.name).write_text("secret")


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
    with pytest.raises(FileProblem) as read:
        read_project_text(path, (project,), LIMIT)
    with pytest.raises(FileProblem) as viewed:
        await workspace.view_project_file(path, (project,), limit_bytes=LIMIT)
    assert (read.value.problem, viewed.value.problem) == (problem, problem)


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

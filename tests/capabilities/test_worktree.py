"""Worktrees of real git: made of the files as they are, found changed, and removed without a trace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.worktree import (
    ChangedFile,
    discard_worktree,
    find_changed,
    find_worktree,
    has_worktrees,
    make_worktree,
    merge_lines,
    remove_worktree,
)
from tests.capabilities.conftest import git

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(shutil.which("git") is None, reason="no git here"),
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a folder below the top of a repository with changes that are not committed."""
    top = (tmp_path / "project").resolve()
    folder = top / "src"
    folder.mkdir(parents=True)
    git(top, "init", "--quiet")
    (top / ".gitignore").write_text("*.log\n")
    (folder / "a.txt").write_text("one\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "first")
    (folder / "a.txt").write_text("two\n")
    (folder / "new.txt").write_text("new\n")
    (folder / "run.log").write_text("log\n")
    return folder


def test_a_worktree_has_the_files_as_they_are_and_leaves_the_users_alone(repository: Path) -> None:
    before = git(repository, "status", "--porcelain")
    tree = make_worktree(repository, "Look: at it!", "0123456789abcdef")
    assert sorted(path.name for path in tree.folder.iterdir()) == ["a.txt", "new.txt"]
    assert (tree.folder / "a.txt").read_text() == "two\n"
    assert (tree.branch, git(repository, "status", "--porcelain")) == ("sidecar/look-at-it-01234567", before)
    assert find_changed(tree) == ([], [])
    (tree.folder / "a.txt").write_text("three\n")
    (tree.folder / "new.txt").unlink()
    (tree.folder / "more.txt").write_text("more\n")
    (tree.folder / "image").write_bytes(b"\0\xff")
    assert find_changed(tree) == (
        [
            ChangedFile("src/a.txt", "two\n", "three\n"),
            ChangedFile("src/more.txt", None, "more\n"),
            ChangedFile("src/new.txt", "new\n", None),
        ],
        ["src/image cannot be merged as text"],
    )
    remove_worktree(tree)
    assert not tree.path.exists()
    assert git(repository, "branch", "--list", "sidecar/*") == ""
    assert git(repository, "status", "--porcelain") == before


def test_a_repository_without_a_commit_has_worktrees_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("one\n")
    tree = make_worktree(tmp_path.resolve(), "x", "0123456789abcdef")
    assert (tree.folder / "a.txt").read_text() == "one\n"


def test_without_a_repository_or_with_programs_in_its_configuration_it_says_so(
    tmp_path: Path, repository: Path
) -> None:
    with pytest.raises(InvalidInput, match="this folder is in no repository"):
        make_worktree(tmp_path, "x", "0123456789abcdef")
    git(repository, "config", "filter.x.clean", "touch ran")
    with pytest.raises(InvalidInput, match="names programs"):
        make_worktree(repository, "x", "0123456789abcdef")


def test_lines_that_both_changed_are_not_merged() -> None:
    old = "a\nb\nc\nd\ne\n"
    assert merge_lines("A\nb\nc\nd\ne\n", old, "a\nb\nc\nd\nE\n") == "A\nb\nc\nd\nE\n"
    assert merge_lines("A\nb\nc\nd\ne\n", old, "B\nb\nc\nd\ne\n") is None


def test_a_worktree_is_discarded_unless_it_has_work_that_is_nowhere_else(repository: Path) -> None:
    merged = make_worktree(repository, "merged", "0123456789abcdef")
    (merged.folder / "a.txt").write_text("three\n")
    (repository / "a.txt").write_text("three\n")
    assert find_worktree(merged.folder) == merged
    assert discard_worktree(merged.folder) is None
    assert not merged.path.exists()
    alone = make_worktree(repository, "alone", "123456789abcdef0")
    assert has_worktrees(repository)
    (alone.folder / "a.txt").write_text("four\n")
    git(alone.path, "commit", "--quiet", "--all", "-m", "its own commit")
    assert discard_worktree(alone.folder) == alone
    assert (alone.folder / "a.txt").read_text() == "four\n"
    assert git(repository, "branch", "--list", "sidecar/*").split()[-1] == alone.branch


def test_no_other_folder_is_taken_for_a_worktree_of_a_sub_agent(repository: Path) -> None:
    own = repository / "sidecar" / "part"
    own.mkdir(parents=True)
    assert (find_worktree(own), discard_worktree(repository)) == (None, None)
    assert (find_worktree(repository / "gone" / "sidecar" / "x"), has_worktrees(repository)) == (None, False)

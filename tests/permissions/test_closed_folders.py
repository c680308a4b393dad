"""Paths in a folder that the user may not enter are asked about like any other; nothing raises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from file_powers import ordinary_user
from sidecar.permissions.access import Access, CommandAccess, EditAccess, PatchAccess, ReadAccess
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders

LINES = (
    "cat {closed}/a", "ls {closed}", "ls {closed}/deep", "cat {closed}/*", "find {closed} -name a",
    "grep -r x {closed}", "cd {closed} && ls", "git -C {closed} status", "git -C {closed}/deep log",
    "cp src/a {closed}/b", "cp src/a {closed}", "mv src/a {closed}/deep", "touch {closed}/a",
    "mkdir -p {closed}/x", "echo x > {closed}/a", "cat < {closed}/a", "mv {closed} other && cat other/a",
    "mv {closed}/x y && ls", "tee {closed}/a", "sed -i s/a/b/ {closed}/a", "{closed}/program",
    "make -C {closed}",
)  # fmt: skip


@pytest.fixture(params=["outside", "project/inside"])
def closed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/src/a").touch()
    folder = tmp_path.resolve() / str(request.param)
    (folder / "deep").mkdir(parents=True)
    folder.chmod(0o000)
    yield folder
    folder.chmod(0o700)


@ordinary_user
@pytest.mark.parametrize("line", LINES)
def test_a_command_is_judged(closed: Path, tmp_path: Path, line: str) -> None:
    root = tmp_path.resolve() / "project"
    verdict = Policy(SessionFolders((root,))).judge(CommandAccess(line.format(closed=closed), root))
    assert verdict.outcome == "ask" or closed.is_relative_to(root)


@ordinary_user
def test_a_line_in_a_closed_folder_is_judged(closed: Path, tmp_path: Path) -> None:
    policy = Policy(SessionFolders((tmp_path.resolve() / "project",)))
    for line in ("git status", "git commit -m x", "ls", "cat a", "cp a b", "x"):
        for folder in (closed, closed / "deep"):
            assert policy.judge(CommandAccess(line, folder)).outcome in ("ask", "allow")


@ordinary_user
def test_files_in_it_are_judged(closed: Path, tmp_path: Path) -> None:
    policy = Policy(SessionFolders((tmp_path.resolve() / "project",)))
    is_inside = closed.is_relative_to(policy.place.roots[0])
    edits = tuple(EditAccess(closed / name, is_inside) for name in ("a", "deep/a"))
    accesses: tuple[Access, ...] = (ReadAccess(closed / "deep/a"), *edits, PatchAccess(edits))
    for access in accesses:
        assert policy.judge(access).outcome == "ask"

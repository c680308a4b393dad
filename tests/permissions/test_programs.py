"""A known command is the program that the shell will run: one inside the session's folders is another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.permissions.access import CommandAccess, EditAccess
from sidecar.permissions.policy import PermissionMode, Policy
from sidecar.permissions.protected import SessionFolders

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells, paths and links")


@pytest.fixture(autouse=True)
def _folders(root: Path) -> None:
    (root / ".venv/bin").mkdir(parents=True)
    (root / "tools").mkdir()


def outcome(line: str, root: Path, mode: PermissionMode = "allowEdits") -> str:
    return Policy(SessionFolders((root,)), mode=mode).judge(CommandAccess(line, root)).outcome


def make_program(path: Path) -> None:
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)


def put_on_path(monkeypatch: pytest.MonkeyPatch, *folders: str | Path) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"]))


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("ls", "ls"),
        ("ls", "cd tools && ls -la"),
        ("timeout", "timeout 5 ls"),
        ("ls", "timeout 5 ls"),
        ("rtk", "rtk git status"),
        ("git", "rtk git status"),
        ("git", "git status"),
        ("touch", "touch a"),
        ("sed", "sed -i s/a/b/ x"),
        ("grep", "find . -type f -exec grep -l x {} +"),
        ("grep", "egrep x a"),
        ("bash", "ls"),
    ],
)
def test_a_program_inside_asks(root: Path, monkeypatch: pytest.MonkeyPatch, program: str, line: str) -> None:
    put_on_path(monkeypatch, root / ".venv/bin")
    assert outcome(line, root) == "allow"
    make_program(root / ".venv/bin" / program)
    assert outcome(line, root) == "ask"


def test_a_builtin_of_the_shell_stays_free(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(monkeypatch, root / ".venv/bin")
    for name in ("echo", "test", "printf", "pwd"):
        make_program(root / ".venv/bin" / name)
    assert outcome("echo a; test -f a; printf b; pwd", root) == "allow"


def test_a_link_that_leads_inside_asks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = root.parent / "bin"
    outside.mkdir()
    make_program(root / "tools/mine")
    (outside / "ls").symlink_to(root / "tools/mine")
    put_on_path(monkeypatch, outside)
    assert outcome("ls", root) == "ask"


@pytest.mark.parametrize("folder", ["", "."])
def test_behind_the_working_folder_on_the_path_nothing_is_known(
    root: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """An earlier command of the line could put the program there."""
    put_on_path(monkeypatch, folder)
    assert outcome("ls", root) == "ask"
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{folder}")
    assert outcome("ls", root) == "allow"


def test_a_relative_folder_of_the_path_counts_where_the_line_may_be(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, "tools")
    make_program(root / "tools/ls")
    assert (outcome("ls", root), outcome("cat a", root)) == ("ask", "allow")


def test_a_file_that_is_no_program_is_passed_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(monkeypatch, root / ".venv/bin")
    (root / ".venv/bin/ls").write_text("x", encoding="utf-8")
    (root / ".venv/bin/cat").mkdir()
    assert outcome("ls; cat a", root) == "allow"


def test_a_function_of_the_environment_is_not_the_known_program(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASH_FUNC_ls%%", "() {  touch x\n}")
    assert (outcome("ls", root), outcome("cat a", root)) == ("ask", "allow")


@pytest.mark.parametrize(("name", "expected"), [("tools/env.sh", "ask"), ("../env.sh", "allow")])
def test_a_file_inside_that_the_shell_reads_first_makes_every_line_ask(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: str
) -> None:
    monkeypatch.setenv("BASH_ENV", str(root / name))
    assert outcome("ls", root) == expected


def test_an_always_about_a_program_outside_does_not_reach_one_inside(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, root / ".venv/bin")
    policy = Policy(SessionFolders((root,)))
    for line in ("git add a", "cargo test"):
        policy.granted |= policy.judge(CommandAccess(line, root)).keys
    for name in ("git", "pytest"):
        make_program(root / ".venv/bin" / name)
    assert policy.judge(CommandAccess("git add a", root)).outcome == "ask"
    builds = policy.judge(CommandAccess("pytest -q", root))
    assert builds.outcome == "allow", "the project decides which code a test runs"


@pytest.mark.parametrize(
    "line",
    [
        "cp -p tools/x .venv/bin/ls",
        "cp -p tools/ls .venv/bin",
        "mv tools/x .venv/bin/ls",
        "mv .venv old && mv tools .venv",
        "mv venv old && mv tools venv",
        "echo x > .venv/bin/ls",
        "touch .venv/bin/ls",
        "touch node_modules/.bin/x",
    ],
)
def test_the_folders_of_the_path_are_protected(
    root: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    put_on_path(monkeypatch, root / ".venv/bin", root / "venv/bin", "./node_modules/.bin")
    assert outcome(line, root) == "ask"


def test_a_program_on_the_path_is_not_changed_unasked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(monkeypatch, root / "venv/bin")
    policy = Policy(SessionFolders((root,)), mode="allowEdits")
    verdict = policy.judge(EditAccess(root / "venv/bin/pip", is_inside=True))
    assert (verdict.outcome, verdict.keys) == ("ask", frozenset())
    assert "a folder of programs" in verdict.why
    assert policy.judge(EditAccess(root / "venv/lib/x.py", is_inside=True)).outcome == "allow"

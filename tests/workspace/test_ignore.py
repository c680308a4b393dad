"""What is left out of a tree: the rules of git, checked against git where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.workspace.ignore import IgnoreRules, read_ignore_lines, walk

posix_only = pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")


def make(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(start: Path, root: Path, cap: int = 1000) -> list[str]:
    entries = walk(start, root, cap=cap)
    return [
        os.path.relpath(entry.path, start).replace(os.sep, "/") + "/" * entry.is_dir() for entry in entries
    ]


def kept_files(root: Path) -> list[str]:
    return [name for name in found(root, root) if not name.endswith("/")]


TREE = dict.fromkeys(
    (
        "a.py",
        "a.log",
        "keep.log",
        "doc/a.txt",
        "doc/b/a.txt",
        "doc/b/c.log",
        "out/x",
        "out/keep/x",
        "src/out/x",
        "src/a.py",
        "src/#note",
        "src/sp ace ",
        "src/[x]",
    ),
    "",
)

CASES = [
    pytest.param({".gitignore": "*.log\n!keep.log\n"}, id="negation"),
    pytest.param({".gitignore": "out/\n"}, id="folders at any depth"),
    pytest.param({".gitignore": "/out\n"}, id="anchored by a leading slash"),
    pytest.param({".gitignore": "doc/*.txt\n"}, id="anchored by a slash within"),
    pytest.param({".gitignore": "doc/**/*.txt\n"}, id="any depth within"),
    pytest.param({".gitignore": "out/\n!out/keep/\n"}, id="nothing comes back from an ignored folder"),
    pytest.param({".gitignore": "out/*\n!out/keep/\n"}, id="its contents ignored, one brought back"),
    pytest.param({".gitignore": "/out/**\n!/out/x\n"}, id="all below ignored, one brought back"),
    pytest.param({".gitignore": "*.py\n!src/\n"}, id="a negated folder brings no file back"),
    pytest.param({".gitignore": "*\n!*/\n!*.py\n!.gitignore\n"}, id="everything but"),
    pytest.param({".gitignore": "*.log\n", "doc/.gitignore": "!*.log\n"}, id="deeper wins"),
    pytest.param({"doc/.gitignore": "/a.txt\n"}, id="deeper anchors at its folder"),
    pytest.param({".gitignore": "\\#note\n# a.py\n\n  \nsrc/sp\\ ace\\ \n"}, id="comments and escapes"),
    pytest.param({".gitignore": "src/\\[x]\n[z-a]\n"}, id="brackets, and a bad range is skipped"),
    pytest.param({".gitignore": "*.LOG\n"}, id="case matters"),
    pytest.param({".gitignore": "a.p?\r\n"}, id="CR LF"),
]


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("rules", CASES)
def test_as_git_sees_it(tmp_path: Path, rules: dict[str, str]) -> None:
    make(tmp_path, TREE | rules)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    command = ["git", "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
    assert sorted(kept_files(tmp_path)) == sorted(listed.decode().split("\0")[:-1])


def test_walks_by_name_a_folder_before_what_it_holds(tmp_path: Path) -> None:
    make(tmp_path, {"b/z": "", "b/a/x": "", "a.py": "", "c": "", "B": ""})
    assert found(tmp_path, tmp_path) == ["B", "a.py", "b/", "b/a/", "b/a/x", "b/z", "c"]


def test_the_built_in_list_can_be_overruled_but_for_git(tmp_path: Path) -> None:
    make(tmp_path, {"dist/x": "", "node_modules/x": "", ".git/x": "", "src/dist": "", "a/.DS_Store": ""})
    assert kept_files(tmp_path) == ["src/dist"]
    make(tmp_path, {".ignore": "!dist/\n!.git\n"})
    assert kept_files(tmp_path) == [".ignore", "dist/x", "src/dist"]


def test_copies_that_editors_keep_are_left_out(tmp_path: Path) -> None:
    copies = [".#a.py", "#a.py#", "a.py~", "a.py.~1~", ".a.py.swp", ".a.py.swo", ".a.py.kate-swp"]
    make(tmp_path, dict.fromkeys([*copies, "a.py", "#1.md", "a.swp", ".swift"], ""))
    assert sorted(entry.name for entry in walk(tmp_path, tmp_path, cap=99)) == [
        "#1.md",
        ".swift",
        "a.py",
        "a.swp",
    ]
    (tmp_path / ".ignore").write_text("!*~\n")
    assert "a.py~" in [entry.name for entry in walk(tmp_path, tmp_path, cap=99)]


def test_dot_ignore_wins_over_gitignore_beside_it(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.log\n", ".ignore": "!a.log\n", "a.log": "", "b.log": ""})
    assert kept_files(tmp_path) == [".gitignore", ".ignore", "a.log"]


def test_who_names_an_ignored_folder_sees_into_it(tmp_path: Path) -> None:
    make(
        tmp_path,
        {".gitignore": "out/\n*.log\n", "out/a": "", "out/b.log": "", "out/.gitignore": "c\n", "out/c": ""},
    )
    assert found(tmp_path / "out", tmp_path) == [".gitignore", "a", "b.log"]


def test_rules_above_the_start_hold(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.log\n", "src/a.log": "", "src/a.py": ""})
    assert found(tmp_path / "src", tmp_path) == ["a.py"]


def test_is_ignored_speaks_of_what_need_not_exist(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.log\n/gen/\n", "gen/keep": ""})
    rules = IgnoreRules(tmp_path)
    names = ["x.log", "a/b/x.log", "gen/a/b", "node_modules/a/b.py", ".git/HEAD", "a/b.py", "."]
    assert [rules.is_ignored(tmp_path / name) for name in names] == [True] * 5 + [False] * 2


def test_forgetting_reads_the_rules_anew(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "gen/\n"})
    rules = IgnoreRules(tmp_path)
    assert rules.is_ignored(tmp_path / "gen" / "x")
    make(tmp_path, {".gitignore": ""})
    assert rules.is_ignored(tmp_path / "gen" / "x")
    rules.forget()
    assert not rules.is_ignored(tmp_path / "gen" / "x")


def test_cap_and_cancel(tmp_path: Path) -> None:
    make(tmp_path, {f"{n:02}": "" for n in range(20)})
    assert found(tmp_path, tmp_path, cap=3) == ["00", "01", "02"]
    seen: list[str] = []
    entries = walk(tmp_path, tmp_path, cap=99, is_cancelled=lambda: len(seen) >= 2)
    seen.extend(entry.name for entry in entries)
    assert seen == ["00", "01"]


@posix_only
def test_loops_of_links_end(tmp_path: Path) -> None:
    make(tmp_path, {"a/b/x": ""})
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    assert [entry.name for entry in walk(tmp_path, tmp_path, cap=99)] == ["a", "b", "up", "x"]


@posix_only
def test_a_pipe_named_like_an_ignore_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    make(tmp_path, {"a": ""})
    assert found(tmp_path, tmp_path) == [".gitignore", "a"]


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "gone", tmp_path) == []


@posix_only
def test_an_ignore_file_that_is_a_link_holds_no_patterns(tmp_path: Path) -> None:
    """As with git: nobody asked for what it leads to."""
    (tmp_path / "outside").write_text("*.py\n")
    root = tmp_path / "root"
    make(root, {"a.py": ""})
    (root / ".gitignore").symlink_to("../outside")
    assert kept_files(root) == [".gitignore", "a.py"]
    assert (read_ignore_lines(root / ".gitignore"), read_ignore_lines(root / "none")) == ([], [])
    assert read_ignore_lines(tmp_path / "outside") == ["*.py", ""]

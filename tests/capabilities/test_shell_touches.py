"""The files that shell commands touch."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.capabilities.shell_touches import MAX_FILES, touches_of_shell

WHOLE: tuple[Any, ...] = ()


def check(command: str, *expected: tuple[Any, ...], folder: str = "") -> None:
    """Each touch as kind, path and ranges, with the target of a move."""
    found = [
        (each.kind, each.path, *((each.target,) if each.target else (each.ranges,)))
        for each in touches_of_shell(command, folder)
    ]
    assert found == list(expected)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("cat a.py", [("read", "a.py", WHOLE)], id="cat reads all of a file"),
        pytest.param("cat a.py b.py", [("read", "a.py", WHOLE), ("read", "b.py", WHOLE)], id="two files"),
        pytest.param("sed -n '10,20p' a.py", [("read", "a.py", ((10, 11),))], id="sed reads lines"),
        pytest.param("sed -n 7p a.py", [("read", "a.py", ((7, 1),))], id="sed reads one line"),
        pytest.param(
            "sed -n '1,5p;20,$p' a.py", [("read", "a.py", ((1, 5), (20, None)))], id="sed reads two ranges"
        ),
        pytest.param("sed -n -e '1,5p' a.py", [("read", "a.py", ((1, 5),))], id="a script in an option"),
        pytest.param("head -n 30 a.py", [("read", "a.py", ((1, 30),))], id="head with a number"),
        pytest.param("head -5 a.py", [("read", "a.py", ((1, 5),))], id="head with a short number"),
        pytest.param("head a.py", [("read", "a.py", ((1, 10),))], id="head reads ten lines"),
        pytest.param("tail -n +40 a.py", [("read", "a.py", ((40, None),))], id="tail from a line"),
        pytest.param("tail -n 40 a.py", [("read", "a.py", WHOLE)], id="tail by count is not known"),
        pytest.param(
            "nl -ba a.py | sed -n '5,9p'", [("read", "a.py", ((5, 5),))], id="a pipe narrows a read"
        ),
        pytest.param("cat a.py | head -50", [("read", "a.py", ((1, 50),))], id="so does head"),
        pytest.param("cat a.py | wc -l", [("read", "a.py", WHOLE)], id="other programs do not"),
        pytest.param("rg -n foo src/a.py", [("search", "src/a.py", WHOLE)], id="a search in a file"),
        pytest.param("rg -n foo src", [], id="a search in a folder touches what it finds"),
        pytest.param("grep -n -e foo a.py", [("search", "a.py", WHOLE)], id="a pattern in an option"),
        pytest.param("echo hi > a.txt", [("write", "a.txt", WHOLE)], id="a redirection writes"),
        pytest.param("echo hi >> a.txt", [("edit", "a.txt", WHOLE)], id="an appending one edits"),
        pytest.param("wc -l < a.txt", [("read", "a.txt", WHOLE)], id="an input is read"),
        pytest.param("make 2> /dev/null > out.log", [("write", "out.log", WHOLE)], id="/dev/null is no file"),
        pytest.param("make 2>&1 | tee out.log", [("write", "out.log", WHOLE)], id="tee writes"),
        pytest.param("echo x | tee -a out.log", [("edit", "out.log", WHOLE)], id="tee -a edits"),
        pytest.param("sed -i 's/a/b/' a.py", [("edit", "a.py", WHOLE)], id="sed -i edits"),
        pytest.param("sed -i '' 's/a/b/' a.py", [("edit", "a.py", WHOLE)], id="sed -i on macOS"),
        pytest.param("sed -i '' '/x,$/d' a.py", [("edit", "a.py", WHOLE)], id="sed -i on macOS, no s"),
        pytest.param("sed -i '' -e 's/a/b/' a.py", [("edit", "a.py", WHOLE)], id="sed -i -e on macOS"),
        pytest.param(
            'sed -i "$x" a.py b.py',
            [("edit", "a.py", WHOLE), ("edit", "b.py", WHOLE)],
            id="a computed script",
        ),
        pytest.param("git mv a.py b.py", [("move", "a.py", "b.py")], id="git mv moves"),
        pytest.param("rm -f a.py", [("remove", "a.py", WHOLE)], id="rm removes"),
        pytest.param("cp a.py b.py", [("read", "a.py", WHOLE), ("write", "b.py", WHOLE)], id="cp"),
        pytest.param("cd src && cat a.py", [("read", "src/a.py", WHOLE)], id="cd goes to a folder"),
        pytest.param("cd /x && cat ../a.py", [("read", "/a.py", WHOLE)], id="paths are joined"),
        pytest.param("bash -lc 'cat a.py'", [("read", "a.py", WHOLE)], id="a shell in a shell"),
        pytest.param("sudo cat a.py", [("read", "a.py", WHOLE)], id="a program that runs another"),
        pytest.param('cat "$FILE" a.py', [("read", "a.py", WHOLE)], id="a computed word is no path"),
        pytest.param("cat *.py", [], id="nor is a pattern"),
        pytest.param("for f in *; do cat $f; done", [], id="a line that is not understood touches nothing"),
        pytest.param(
            "cat <<'END' > a.txt\nx\nEND", [("write", "a.txt", WHOLE)], id="a here-document is no file"
        ),
    ],
)
def test_touches_of_shell(command: str, expected: list[tuple[Any, ...]]) -> None:
    check(command, *expected)


def test_a_command_runs_in_its_folder() -> None:
    check("cat a.py /etc/hosts", ("read", "src/a.py", ()), ("read", "/etc/hosts", ()), folder="src")


def test_a_path_with_a_drive_is_absolute() -> None:
    check("cat C:/x/a.py", ("read", "C:/x/a.py", ()), folder="src")


def test_a_long_line_costs_little() -> None:
    """Many files of one line are no sign of use, and a very long line is not read."""
    assert len(touches_of_shell("cat " + " ".join(f"{n}.py" for n in range(500)))) == MAX_FILES
    assert touches_of_shell("cat " + "a.py " * 9_000) == ()

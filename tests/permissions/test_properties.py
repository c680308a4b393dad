"""Properties of coverage, over random compounds of benign, hostile and random lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_lines import BENIGN, OWN, PUBLISHED
from sidecar.permissions.access import CommandAccess
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders
from tests.permissions.conftest import policy_after

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells and paths")

ROOT = Path("/nowhere/project")
LINES = st.sampled_from(
    [line for line in (*BENIGN, *OWN, *PUBLISHED) if "\n" not in line and "#" not in line]
)
ANSWERED = st.lists(st.sampled_from(BENIGN), max_size=12)
OPERATORS = st.sampled_from([" && ", " || ", "; ", " | ", " & ", "\n"])
FLAGS = st.sampled_from(
    ["--unknown-flag", "--output=x", "-Z", "--exec=x", "--pre=x", "-o x", "-c x", "--config x"]
)
FILES = st.sampled_from([" > x", " >> src/x", " 2> x", " > ../x", " &> .git/config", " >| x", " <> x"])


def covers(policy: Policy, line: str) -> bool:
    return policy.judge(CommandAccess(line, ROOT)).outcome == "allow"


@given(ANSWERED, st.lists(LINES, min_size=1, max_size=4), OPERATORS)
def test_a_covered_compound_has_only_covered_parts(answered: list[str], parts: list[str], by: str) -> None:
    policy = policy_after(answered, ROOT)
    if covers(policy, by.join(parts)):
        assert [part for part in parts if not covers(policy, part)] == []


@given(ANSWERED, LINES, FILES)
def test_a_redirection_never_covers_a_line(answered: list[str], line: str, file: str) -> None:
    policy = policy_after(answered, ROOT)
    assert covers(policy, line) or not covers(policy, line + file)


@given(ANSWERED, LINES, FLAGS)
def test_a_flag_that_is_not_known_never_covers_a_line(answered: list[str], line: str, flag: str) -> None:
    policy = policy_after(answered, ROOT)
    plain = line.split(" ")[0] in ("echo", "true", "false", ":")
    assert covers(policy, line) or plain or not covers(policy, f"{line} {flag}")


@given(ANSWERED, ANSWERED, LINES)
def test_more_answers_never_cover_less(answered: list[str], more: list[str], line: str) -> None:
    assert not covers(policy_after(answered, ROOT), line) or covers(
        policy_after([*answered, *more], ROOT), line
    )


@given(ANSWERED, LINES, st.sampled_from(["sh -c", "env", "sudo", "xargs", "setsid", "nohup", "exec", "eval"]))
def test_a_wrapper_never_covers_its_command(answered: list[str], line: str, wrapper: str) -> None:
    wrapped = f"{wrapper} {line}"
    assert wrapped in answered or not covers(
        policy_after([each for each in answered if each != wrapped], ROOT), wrapped
    )


INSERTED = st.sampled_from(["pwn", "cat ../secret", "git push -f; ls", "<../secret"]).flatmap(
    lambda line: st.sampled_from([f"$({line})", f"`{line}`", f'"$({line})"', f'x"`{line}`"', f"<({line})"])
)
"""Words that the shell makes from the output of a command."""


@given(ANSWERED, LINES, INSERTED)
def test_a_word_that_a_command_makes_never_covers_a_line(
    answered: list[str], line: str, inserted: str
) -> None:
    assert not covers(policy_after(answered, ROOT), f"{line} {inserted}")


NAMES = st.from_regex(
    r"[A-Z]{2,4}_[A-Z]{2,8}|PATH|IFS|BASH_ENV|LD_PRELOAD|PAGER|GIT_[A-Z]{3,9}", fullmatch=True
)


@given(ANSWERED, LINES, NAMES, st.sampled_from(["{}=./x ", "export {}=./x; ", "{0}=./x; export {0}; "]))
def test_a_variable_that_is_not_known_never_covers_a_line(
    answered: list[str], line: str, name: str, form: str
) -> None:
    assert not covers(policy_after(answered, ROOT), form.format(name) + line)


OUTSIDE = st.sampled_from(
    ["/etc/passwd", "../secret", "~/.ssh/id_rsa", "/nowhere/project2/x", "$HOME/.netrc"]
)
READERS = st.sampled_from(
    [
        "cat",
        "head -5",
        "tail -n 5",
        "wc -l",
        "sort",
        "nl -ba",
        "grep -n x",
        "rg x",
        "sed -n 1p",
        "awk '{print}'",
    ]
)


@st.composite
def other_spellings(draw: st.DrawFn, paths: st.SearchStrategy[str]) -> str:
    """Return a path with quotes, escapes and detours that the shell and the system take out again."""
    path = draw(paths)
    detour = draw(st.sampled_from(["", "", "./", "src/../", "src/./../", ".//"]))
    if path[0] not in "/~$":
        path = detour + path
    elif path[0] == "/":
        path = draw(st.sampled_from(["", "/", "/proc/self/root", "/tmp/.."])) + path
    marks = st.sampled_from(["", "", "", "\\", "''", '""', "'{}'", '"{}"', "{{,{}}}"])
    spelled = [
        char if char in "/~$" else (mark.format(char) if "{" in mark else mark + char)
        for char, mark in ((char, draw(marks)) for char in path[2:])
    ]
    return path[:2] + "".join(spelled)


@given(
    ANSWERED,
    READERS,
    other_spellings(OUTSIDE),
    st.sampled_from(["{} {}", "{} src/a {}", "{} < {}", "{} -- {}"]),
)
def test_no_reader_is_covered_for_a_path_outside_however_it_is_spelled(
    answered: list[str], reader: str, path: str, form: str
) -> None:
    inside = [each for each in answered if ".." not in each]
    assert not covers(policy_after(inside, ROOT), form.format(reader, path))


@given(st.text(max_size=60))
def test_any_text_is_judged(line: str) -> None:
    assert Policy(SessionFolders((ROOT,))).judge(CommandAccess(line, ROOT)).outcome in ("allow", "ask")

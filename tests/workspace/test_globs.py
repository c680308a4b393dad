"""Glob patterns: what they match, for ignore files and for people who search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.workspace.globs import GlobRules, expand_braces, glob_matcher

PATHS = ("a.py", "b.ts", "src/a.py", "src/x/b.tsx", "src/x/y/a.py", "src/x/[1].py", "docs/a-b.md", "!a", "#b")


MATCHED = {
    "no slash: at any depth": ("*.py", "a.py src/a.py src/x/y/a.py src/x/[1].py"),
    "a leading slash: at the top": ("/*.py", "a.py"),
    "a leading dot: at the top": ("./a.py", "a.py"),
    "a star stays in its folder": ("src/*.py", "src/a.py"),
    "two stars: any folders, also none": ("src/**/*.py", "src/a.py src/x/y/a.py src/x/[1].py"),
    "two stars at the start": ("**/a.py", "a.py src/a.py src/x/y/a.py"),
    "two stars at the end": ("src/**", "src/a.py src/x/b.tsx src/x/y/a.py src/x/[1].py"),
    "braces": ("*.{ts,tsx}", "b.ts src/x/b.tsx"),
    "several braces": ("{src,docs}/a*.{py,md}", "src/a.py docs/a-b.md"),
    "one character": ("?.py", "a.py src/a.py src/x/y/a.py"),
    "a negated class": ("[!a].ts*", "b.ts src/x/b.tsx"),
    "an escape": ("src/x/\\[1].py", "src/x/[1].py"),
    "an exclamation mark is itself": ("!a", "!a"),
    "a hash is itself": ("#b", "#b"),
    "a backward range matches nothing": ("[z-a]", ""),
    "a folder is no file": ("src", ""),
}


@pytest.mark.parametrize(("pattern", "matched"), MATCHED.values(), ids=MATCHED)
def test_matcher(pattern: str, matched: str) -> None:
    matches = glob_matcher(pattern)
    assert sorted(path for path in PATHS if matches(path)) == sorted(matched.split())


def test_a_name_with_a_line_end_is_one_name() -> None:
    assert glob_matcher("*.py")("a\nb.py")


@given(st.text(alphabet="ab/*?[]!^-\\{},. #", max_size=12), st.text(alphabet="ab/.[]", max_size=8))
def test_no_pattern_is_too_odd(pattern: str, path: str) -> None:
    glob_matcher(pattern)(path)
    GlobRules([pattern]).verdict(path, is_folder=False)


@given(st.text(alphabet="ab/.", min_size=1, max_size=8).filter(lambda path: not path.startswith(("/", "./"))))
def test_a_plain_path_matches_itself(path: str) -> None:
    assert glob_matcher(path)(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        pytest.param("*a" * 30 + "b", "a" * 250, id="many stars"),
        pytest.param("**/" * 30 + "b", "a/" * 500 + "a", id="two stars in a row"),
        pytest.param("a/**/" * 15 + "b", "a/" * 200 + "c", id="two stars between"),
    ],
)
def test_hostile_patterns_take_no_longer_than_the_path(pattern: str, path: str) -> None:
    assert not glob_matcher(pattern)(path)  # would outlive the test run otherwise


def test_many_braces_stay_few_patterns() -> None:
    assert expand_braces("{a,b}.{c,d}") == ["a.c", "a.d", "b.c", "b.d"]
    assert len(expand_braces("{a,b}" * 40)) == 64
    glob_matcher("{a,b}" * 40)("ab")


def test_a_folder_line_speaks_of_folders_alone() -> None:
    rules = GlobRules(["out/"])
    assert (rules.verdict("out", is_folder=True), rules.verdict("out", is_folder=False)) == (True, None)


def test_no_lines_say_nothing() -> None:
    assert not GlobRules(["", "# nothing", "  "])

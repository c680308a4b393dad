"""Results of tool calls: exit codes, wrappings, and the lines of files that they show."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.results import exit_code_in, lines_shown

LINES = ("one", "two", "three", "four")


@pytest.mark.parametrize(
    ("asked", "output", "expected"),
    [
        pytest.param((), "one\ntwo\nthree\nfour\n", (1, 4), id="all of it"),
        pytest.param((), "x\none\ntwo\nthree\nfour\ny", (1, 4), id="among other lines"),
        pytest.param(((2, 2),), "two\nthree\n", (2, 2), id="the lines that were asked for"),
        pytest.param((), "one\ntwo\n[...]\n", (1, 2), id="the beginning of an output that was cut"),
        pytest.param((), "x\nthree\nfour\n", (3, 2), id="its end"),
        pytest.param((), "     2\ttwo\n     3\tthree\n", (2, 2), id="numbered lines"),
        pytest.param((), "     1\tother\n     2\tlines\n", None, id="numbered lines of another file"),
        pytest.param((), "ONE\nTWO\n", None, id="none of its lines"),
        pytest.param(((9, 2),), "", None, id="lines behind its end"),
    ],
)
def test_the_lines_of_a_file_in_an_output(
    asked: tuple[Any, ...], output: str, expected: tuple[int, int] | None
) -> None:
    assert lines_shown(LINES, asked, output) == expected


@given(st.lists(st.sampled_from(["a", "b", ""]), max_size=6), st.text("ab\n1\t ", max_size=20))
def test_lines_that_were_shown_are_lines_of_the_file(lines: list[str], output: str) -> None:
    found = lines_shown(lines, (), output)
    if found is not None:
        first, count = found[0], found[1] or 0
        assert 1 <= first <= first + count - 1 <= len(lines)
        assert all(line in output for line in lines[first - 1 : first - 1 + count])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("done\n[exit 2]", 2, id="our own tool"),
        pytest.param("Exit code: 1\nOutput:\nx", 1, id="Codex"),
        pytest.param('{"output":"x","metadata":{"exit_code":0}}', 0, id="in JSON"),
        pytest.param("Process exited with code 3", 3, id="in words"),
        pytest.param("x" * 1000 + "[exit 2]" + "x" * 1000, None, id="in the middle"),
        pytest.param("the exit is here", None, id="none"),
    ],
)
def test_the_exit_code_in_a_result(body: str, code: int | None) -> None:
    assert exit_code_in(body) == code

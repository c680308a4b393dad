"""What a demonstration finds true of an answer and of a transcript."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.demo import Checks, count_citations, is_suitable, pairs_are_whole
from sidecar.commands.terminal import Screen


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        pytest.param("- `a.py:2` two  words", (1, 0), id="whatever the spaces"),
        pytest.param("- `a.py:1` on...\n- `a.py:1` on…", (2, 0), id="cut with dots"),
        pytest.param("- `a.py:2` one", (1, 1), id="another line"),
        pytest.param("- `a.py:2` `two words`\n- `code.py:1` `` `x` ``", (2, 0), id="as code"),
        pytest.param("- `a.py:9` one", (1, 1), id="no such line"),
        pytest.param("- `b.py:1` one", (1, 1), id="no such file"),
        pytest.param("- `open.py:1` typed", (1, 0), id="a buffer before the disk"),
        pytest.param("nothing", (0, 0), id="nothing cited"),
    ],
)
def test_count_citations(tmp_path: Path, answer: str, counted: tuple[int, int]) -> None:
    (tmp_path / "a.py").write_text("one\ntwo words\n")
    (tmp_path / "code.py").write_text("`x`\n")
    (tmp_path / "open.py").write_text("saved\n")
    assert count_citations(answer, tmp_path, {tmp_path / "open.py": "typed"}) == counted


CALL: dict[str, Any] = {"blocks": [{"kind": "tool_call", "id": "c"}]}
RESULT: dict[str, Any] = {"blocks": [{"kind": "tool_result", "callId": "c"}]}


def test_a_result_stands_behind_its_call() -> None:
    assert pairs_are_whole([CALL, RESULT])
    assert not pairs_are_whole([RESULT, CALL])


def test_a_false_claim_is_shown_with_the_finding() -> None:
    out = io.StringIO()
    checks = Checks(Screen(out))
    checks.check("it holds", True)
    checks.check("it is so", False, "it is not")
    assert checks.close(1.0) == 1
    assert out.getvalue() == "✓ it holds\n✗ it is so; found it is not\n\nNot true: it is so.\n"


@pytest.mark.parametrize(
    ("content", "suits"),
    [
        (b"some words\n" * 50, True),
        (b"some words", False),
        (b"some words\n" * 5_000, False),
        (b"some words\0" * 50, False),
        (b"some words\xff" * 50, False),
        (b"1 2 3\n" * 100, False),
    ],
    ids=["a text", "too small", "too large", "binary", "not utf-8", "no words"],
)
def test_the_demo_uses_texts_of_a_suitable_size(tmp_path: Path, content: bytes, suits: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(content.replace(b"words", b"sentences"))
    assert is_suitable(file) is suits
    assert not is_suitable(tmp_path)

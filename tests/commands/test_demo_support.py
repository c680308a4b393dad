"""What a demonstration finds true of an answer and of a transcript."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.demo_support import Checks, count_citations, pairs_are_whole
from sidecar.commands.terminal import Screen


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        pytest.param("- `a.py:2` two  words", (1, 0), id="whatever the spaces"),
        pytest.param("- `a.py:1` on...\n- `a.py:1` on…", (2, 0), id="cut with dots"),
        pytest.param("- `a.py:2` one", (1, 1), id="another line"),
        pytest.param("- `a.py:9` one", (1, 1), id="no such line"),
        pytest.param("- `b.py:1` one", (1, 1), id="no such file"),
        pytest.param("- `open.py:1` typed", (1, 0), id="a buffer before the disk"),
        pytest.param("nothing", (0, 0), id="nothing cited"),
    ],
)
def test_count_citations(tmp_path: Path, answer: str, counted: tuple[int, int]) -> None:
    (tmp_path / "a.py").write_text("one\ntwo words\n")
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

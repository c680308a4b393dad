"""Failure B-A11: what a shell command plainly writes is tracked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.shell import changed_paths


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        pytest.param("ls -la; cat a.py | grep x", (), id="reading"),
        pytest.param("echo hi > a.txt", ("a.txt",), id="redirection"),
        pytest.param(
            "echo hi>a 2>err.log >>b", ("a", "err.log", "b"), id="without spaces, appending, errors"
        ),
        pytest.param("make 2>&1 >/dev/null", (), id="descriptors and devices"),
        pytest.param("make | tee -a build.log", ("build.log",), id="tee"),
        pytest.param("cd x && sed -i.bak -e s/a/b/ f.c g.c", ("f.c", "g.c"), id="sed in place"),
        pytest.param("sed s/a/b/ f.c", (), id="sed to the screen"),
        pytest.param(
            "mv a b; cp c d && rm -rf e; touch f", ("a", "b", "d", "e", "f"), id="mv, cp, rm, touch"
        ),
        pytest.param(
            "cat > a.py <<'EOF'\nrm b\necho > c\nEOF\nrm d", ("a.py", "d"), id="not the document's body"
        ),
        pytest.param("echo 'a > b' > 'my file'", ("my file",), id="quotes"),
        pytest.param("echo x > $OUT; rm *.o", (), id="variables and globs are not followed"),
        pytest.param("echo 'open\nrm b", ("b",), id="an open quote spoils its line alone"),
        pytest.param("x" * 3000 + " > a", (), id="a line too long to be typed"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_b_a11_changed_paths(command: str, paths: tuple[str, ...]) -> None:
    assert changed_paths(command) == paths


@given(st.text("ab >|;&'\"<\n$-\\", max_size=60))
def test_any_text_is_read_without_complaint(command: str) -> None:
    assert all(changed_paths(command))

"""JSON with the mistakes of models: mended where one thing was meant, and left alone where not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.mend import mend_object, mend_value, place_of_mistake


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"path": "a", "e": [{"a": 1,},],}', {"path": "a", "e": [{"a": 1}]}, id="commas"),
        pytest.param('{"text": "a,\n\tb, ]"}', {"text": "a,\n\tb, ]"}, id="a line break within a text"),
        pytest.param('"{\\"path\\": \\"a\\"}"', {"path": "a"}, id="encoded twice"),
        pytest.param("{'path': 'a', 'x': True, 'n': None}", {"path": "a", "x": True, "n": None}, id="Python"),
        pytest.param("{'text': 'it\\'s\\n'}", {"text": "it's\n"}, id="Python with escapes"),
        pytest.param('```json\n{"path": "a"}\n```', {"path": "a"}, id="in a fence"),
        pytest.param(r'{"pattern": "\d+\.\w"}', {"pattern": r"\d+\.\w"}, id="backslashes of a pattern"),
        pytest.param(r'{"pattern": "\d\n"}', None, id="backslashes that may mean two things"),
        pytest.param(r"{'pattern': '\d'}", None, id="backslashes in Python"),
        pytest.param('{"path": "a", "text": "b', None, id="cut off in a text"),
        pytest.param('{"path": "a", "edits": [1', None, id="cut off in a list"),
        pytest.param('{"' + '\\"' * 400_000, None, id="cut off behind many quotes"),
        pytest.param('{"path": "a"} {"path": "b"}', None, id="two objects"),
        pytest.param("{'a': {1, 2}}", None, id="a set"),
        pytest.param("[1]", None, id="no object"),
        pytest.param('[{"path": "a"}]', {"path": "a"}, id="in a list of its own"),
        pytest.param('[{"path": "a"}, {"path": "b"}]', None, id="two objects in a list"),
        pytest.param('{"path": "a"}}\n', {"path": "a"}, id="a bracket too many"),
        pytest.param('{path: "a: b", limit : 3}', {"path": "a: b", "limit": 3}, id="names without quotes"),
        pytest.param("", None, id="nothing"),
        pytest.param("[" * 100_000, None, id="deep"),
    ],
)  # fmt: skip
def test_mend_object(text: str, value: dict[str, Any] | None) -> None:
    assert mend_object(text) == value


VALUES = st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()) | st.booleans())


@given(value=VALUES, cut=st.integers(0, 20))
def test_what_is_valid_stays_and_what_is_cut_off_is_never_read(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    assert mend_object(text) == value
    if cut:
        assert mend_object(text[:-cut]) is None


@given(st.text(alphabet="{}[]\"'\\,: \nabdn1"))
def test_any_text_is_an_object_or_nothing(text: str) -> None:
    assert isinstance(mend_object(text), dict | None)
    assert isinstance(mend_value(text), dict | list | str)


def test_the_place_of_a_mistake() -> None:
    assert place_of_mistake('{"a": 1,\n"b"}') == "line 2, column 4: Expecting ':' delimiter"

"""Ids of nodes: RFC 8785, and a fixed form for what that refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import AssistantTurn, TextBlock, ToolCallBlock, UserTurn
from sidecar.runtime.store import canonical_json, hash_node


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}', id="keys sorted"),
        pytest.param(
            {"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}', id="by UTF-16, as RFC 8785 says"
        ),
        pytest.param([1.0, 1e21, -0.0, 1e-7], "[1,1e+21,0,1e-7]", id="numbers as JavaScript writes them"),
        pytest.param("é\n\x1f", '"é\\n\\u001f"', id="text raw but for what must be escaped"),
        pytest.param(2**53, "9007199254740992", id="integers that RFC 8785 refuses in full"),
        pytest.param([float("nan"), float("-inf")], "[NaN,-Infinity]", id="numbers that are none"),
        pytest.param({"b": "\ud800", "a": 1}, '{"a":1,"b":"\\ud800"}', id="lone surrogates escaped"),
        pytest.param({"\ud800": 1}, '{"\\ud800":1}', id="in keys too"),
    ],
)
def test_canonical_json(value: Any, text: str) -> None:
    assert canonical_json(value) == text


def test_ids_are_32_hex_digits_of_parent_turn_and_time() -> None:
    turn = UserTurn((TextBlock("hi"),))
    ids = {hash_node(None, turn, 0), hash_node("abc", turn, 0), hash_node(None, turn, 1)}
    ids.add(hash_node(None, AssistantTurn(turn.blocks), 0))
    assert len(ids) == 4
    assert hash_node(None, turn, 0) == "0ed48b6ef87051cde314b35d61cb688c"


def test_the_order_of_keys_does_not_change_an_id() -> None:
    one = AssistantTurn((ToolCallBlock("c1", "read", {"path": "a.py", "limit": 3}),))
    two = AssistantTurn((ToolCallBlock("c1", "read", {"limit": 3.0, "path": "a.py"}),))
    assert hash_node(None, one, 0) == hash_node(None, two, 0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, json_values)
def test_different_values_have_different_texts(a: Any, b: Any) -> None:
    def plain(value: Any) -> str:
        return json.dumps(_by_value(value), sort_keys=True)

    assert (canonical_json(a) == canonical_json(b)) == (plain(a) == plain(b))


@given(json_values)
def test_a_text_is_that_of_the_library_for_rfc_8785_wherever_it_has_one(value: Any) -> None:
    """Most values are written by a faster encoder, and their ids must not change."""
    try:
        expected = rfc8785.dumps(value).decode()
    except ValueError:
        return
    assert canonical_json(value) == expected


def _by_value(value: Any) -> Any:
    """Spell numbers so that equal ones look alike: 1 and 1.0, 0 and -0.0, 2**53 and 2.0**53."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"n{value}" if value != float(value) else f"n{int(float(value))}"
    if isinstance(value, float):
        return (
            f"n{int(value)}"
            if value == value and value not in (float("inf"), float("-inf")) and value == int(value)
            else f"f{value!r}"
        )
    if isinstance(value, list):
        return [_by_value(each) for each in value]
    return {f"k{key}": _by_value(each) for key, each in value.items()}

"""The stored form of turns and of whatever tools return, and the ids of nodes by RFC 8785."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import canonical_json, hash_node, turn_from_record, turn_to_record
from sidecar.runtime.store.codec import encode_line, node_from_record, node_record, settled_turn, to_json
from turns import nest_lists

STORED_BLOCKS = {
    "text": (TextBlock("hi"), {"kind": "text", "text": "hi"}),
    "thinking": (ThinkingBlock("hm"), {"kind": "thinking", "text": "hm"}),
    "signature": (ThinkingBlock("hm", "sig"), {"kind": "thinking", "text": "hm", "signature": "sig"}),
    "tool call": (
        ToolCallBlock("c1", "read", {"path": "a"}),
        {"kind": "tool_call", "id": "c1", "name": "read", "input": {"path": "a"}},
    ),
    "result": (ToolResultBlock("c1", None), {"kind": "tool_result", "callId": "c1", "output": None}),
    "result with its flag": (
        ToolResultBlock("c1", "x", False),
        {"kind": "tool_result", "callId": "c1", "output": "x", "isError": False},
    ),
    "image": (
        ImageBlock("image/png", "AA=="),
        {"kind": "image", "mediaType": "image/png", "dataBase64": "AA=="},
    ),
    "command": (CommandBlock("clear"), {"kind": "command", "command": "clear"}),
    "arguments": (CommandBlock("x", ("a", "b")), {"kind": "command", "command": "x", "args": ["a", "b"]}),
}


@pytest.mark.parametrize(("block", "record"), STORED_BLOCKS.values(), ids=STORED_BLOCKS)
def test_each_block_has_its_stored_form(block: Block, record: dict[str, Any]) -> None:
    turn = ToolTurn((block,))
    assert turn_to_record(turn) == {"role": "tool", "blocks": [record]}
    assert turn_from_record({"role": "tool", "blocks": [record]}) == turn


def test_a_node_line_holds_id_parent_turn_time_and_checksum() -> None:
    node = SessionNode("id", None, UserTurn((TextBlock("é"),)), 7)
    assert encode_line(node_record(node)).decode() == (
        '{"type":"node","node":{"id":"id","parent":null,'
        '"turn":{"role":"user","blocks":[{"text":"é","kind":"text"}]},"createdAt":7},"sum":"2c15fac2"}\n'
    )


@pytest.mark.parametrize(
    "record",
    [
        {"role": "system", "blocks": []},
        {"role": "user", "blocks": [{"kind": "poem", "text": "x"}]},
        {"role": "user", "blocks": [{"kind": "text"}]},
        {"role": "user", "blocks": [{"kind": "text", "text": 3}]},
        {"role": "user"},
        {"role": ["user"], "blocks": []},
        {"role": "user", "blocks": ["text"]},
        [],
    ],
)
def test_what_is_no_turn_is_refused(record: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        turn_from_record(record)


def test_a_turn_that_is_json_is_settled_already() -> None:
    turn = AssistantTurn((ToolCallBlock("c", "read", {"path": "a"}),))
    assert settled_turn(turn)[0] is turn


def json_values_with(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | st.text(st.characters()),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )


json_values = json_values_with(st.floats(allow_nan=False))
texts = st.text(st.characters(), max_size=8)
blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, texts),
    st.builds(ThinkingBlock, texts, st.none() | texts),
    st.builds(ToolCallBlock, texts, texts, json_values),
    st.builds(ToolResultBlock, texts, json_values, st.none() | st.booleans()),
    st.builds(ImageBlock, texts, texts),
    st.builds(CommandBlock, texts, st.none() | st.lists(texts, max_size=2).map(tuple)),
)
turns: st.SearchStrategy[Turn] = st.one_of(
    *(
        st.builds(kind, st.lists(blocks, max_size=3).map(tuple))
        for kind in (UserTurn, AssistantTurn, ToolTurn)
    )
)


@given(turns, st.none() | texts, st.integers(0, 2**63))
def test_a_node_comes_back_as_it_was_settled(turn: Turn, parent: str | None, created_at: int) -> None:
    settled, _ = settled_turn(turn)
    node = SessionNode("id", parent, settled, created_at)
    line = encode_line(node_record(node))
    assert line.count(b"\n") == 1
    again = node_from_record(json.loads(line))
    assert again.turn == settled
    assert again.created_at == created_at
    assert settled_turn(again.turn)[0] is again.turn


@dataclass
class Point:
    x: int
    y: tuple[int, ...]


class Colour(Enum):
    RED = "red"


class Awkward:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]  # as unpleasant as an object gets


def circle() -> list[Any]:
    loop: list[Any] = [1]
    loop += [loop, loop]
    return loop


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        pytest.param({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}, id="JSON as it is"),
        pytest.param((1, (2,)), [1, [2]], id="tuples"),
        pytest.param({3, 1, 2}, [1, 2, 3], id="sets in a fixed order"),
        pytest.param(frozenset({"b", "a"}), ["a", "b"], id="frozen sets"),
        pytest.param({"k": 1}.keys(), ["k"], id="views"),
        pytest.param(b"\x00\xff", {"$base64": "AP8="}, id="bytes"),
        pytest.param({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "null": "b", "[1,2]": "c"}, id="keys"),
        pytest.param({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]], id="keys that fall together"),
        pytest.param(Point(1, (2,)), {"x": 1, "y": [2]}, id="dataclasses"),
        pytest.param(Colour.RED, "red", id="enumerations"),
        pytest.param(datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00", id="times"),
        pytest.param(ValueError("x"), "ValueError('x')", id="any object by its repr"),
        pytest.param(Awkward(), "<Awkward>", id="an object that raises"),
        pytest.param(circle(), [1, "[contains itself]", "[contains itself]"], id="a circle"),
        pytest.param(2**60, 2**60, id="big integers in full"),
        pytest.param(16**5000, hex(16**5000), id="integers no reader takes"),
        pytest.param("\ud83d\ude00", "😀", id="two surrogates are one character"),
        pytest.param("\ud83d", "\ud83d", id="a lone surrogate stays"),
    ],
)
def test_each_value_has_one_stored_form(value: Any, stored: Any) -> None:
    assert to_json(value) == stored


def test_deep_nesting_ends_in_a_marker() -> None:
    text = json.dumps(to_json(nest_lists(5_000)))
    assert text == "[" * 100 + '"[nested too deeply]"' + "]" * 100


def test_a_one_shot_iterator_is_not_consumed() -> None:
    numbers = iter([1, 2])
    assert to_json(numbers).startswith("<list_iterator object")
    assert list(numbers) == [1, 2]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs"]), max_size=3)
    | st.binary(max_size=4),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(
            st.text(max_size=3) | st.integers() | st.none() | st.tuples(st.integers()), inner, max_size=3
        ),
        st.frozensets(st.integers() | st.text(max_size=2), max_size=3),
    ),
    max_leaves=12,
)


@given(anything)
def test_the_result_is_json_survives_it_and_is_stable(value: Any) -> None:
    stored = to_json(value)
    assert json.loads(json.dumps(stored)) == stored
    assert to_json(stored) == stored


CANONICAL = {
    "keys sorted": ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
    "by UTF-16, as RFC 8785 says": ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
    "numbers as JavaScript writes them": ([1.0, 1e21, -0.0, 1e-7], "[1,1e+21,0,1e-7]"),
    "text raw but for what must be escaped": ("é\n\x1f", '"é\\n\\u001f"'),
    "integers that RFC 8785 refuses in full": (2**53, "9007199254740992"),
    "numbers that are none": ([float("nan"), float("-inf")], "[NaN,-Infinity]"),
    "lone surrogates escaped": ({"b": "\ud800", "a": 1}, '{"a":1,"b":"\\ud800"}'),
    "in keys too": ({"\ud800": 1}, '{"\\ud800":1}'),
}


@pytest.mark.parametrize(("value", "text"), CANONICAL.values(), ids=CANONICAL)
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


any_numbers = json_values_with(st.floats())


@given(any_numbers, any_numbers)
def test_different_values_have_different_texts(a: Any, b: Any) -> None:
    def plain(value: Any) -> str:
        return json.dumps(_by_value(value), sort_keys=True)

    assert (canonical_json(a) == canonical_json(b)) == (plain(a) == plain(b))


@given(any_numbers)
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

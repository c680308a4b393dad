"""Whatever a tool returns can be stored, in one documented form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.runtime.store.codec import to_json


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


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


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
    text = json.dumps(to_json(nested(5_000)))
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

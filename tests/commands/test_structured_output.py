"""Answers by JSON Schema: schemas that are refused, and the value in an answer with its problems."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from sidecar.commands import structured_output
from sidecar.commands.structured_output import OutputSchema, SchemaError, check_schema, find_problems


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(3, "#: 3 is not of type 'object', 'boolean'", id="no schema"),
        pytest.param({"items": {"type": "text"}}, "#/items/type: 'text' is not valid", id="a type"),
        pytest.param({"$ref": "a.json"}, "'$ref': 'a.json' leads out of the schema", id="another file"),
        pytest.param({"items": [{"$ref": "#/$defs/a"}]}, "#/items", id="items of an earlier draft"),
        pytest.param({"$ref": "#/$defs/a"}, "'$ref': '#/$defs/a' leads out", id="nothing there"),
        pytest.param({"pattern": "("}, "#/pattern: '(' is not a 'regex'", id="a pattern"),
    ],
)
def test_a_schema_that_would_not_be_enforced_is_refused(schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError) as raised:
        check_schema(schema)
    assert str(raised.value).startswith(problem)


def test_a_schema_may_contain_itself_further_down() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}, "required": ["name"]}
    check_schema(tree)
    (problem,) = find_problems(tree, {"name": 1, "left": {"left": {"name": 2}}})
    assert problem == "the answer.left: 'name' is a required property"


def test_of_alternatives_the_problem_with_the_nearest_is_told() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]}
    assert list(find_problems(schema, {"n": "x"})) == ["the answer.n: 'x' is not of type 'integer'"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"if": {"minLength": 3}, "then": {"$ref": "#"}},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_schema_that_leads_back_to_itself_for_one_value_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaError, match="leads back to itself"):
        check_schema(schema)


def test_an_answer_that_is_nested_too_deeply_has_a_problem() -> None:
    nested: list[Any] = []
    for _ in range(900):
        nested = [nested]
    (problem,) = find_problems({"items": {"$ref": "#"}}, nested)
    assert "nested too deeply" in problem


@pytest.mark.parametrize(
    ("answer", "value", "problems"),
    [
        pytest.param(" 3\n", 3, 0, id="the whole answer"),
        pytest.param("```json\n1\n```\nor\n```\n2\n```", 2, 0, id="the last block of code"),
        pytest.param("three", None, 1, id="no JSON"),
        pytest.param("```\n[1,\n```", None, 1, id="a block that is not JSON"),
        pytest.param("NaN", None, 1, id="a constant of JavaScript"),
        pytest.param('"3"', "3", 1, id="another type"),
    ],
)
def test_the_value_of_an_answer_is_found(answer: str, value: object, problems: int) -> None:
    found, listed = OutputSchema({"type": "integer"}).parse(answer)
    assert (found, len(listed)) == (value, problems)


def test_the_examples_hold() -> None:
    assert doctest.testmod(structured_output).failed == 0

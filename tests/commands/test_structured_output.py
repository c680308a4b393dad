"""JSON Schema: the same verdicts as the library ``jsonschema``, and schemas that are refused."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from properties import cases
from sidecar.commands import structured_output
from sidecar.commands.structured_output import OutputSchema, SchemaError, check_schema, find_problems

NAMES = st.sampled_from("abc")
SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "bc", "äö"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=1, max_size=2)
    small = st.integers(0, 2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=2),
        "const": VALUES,
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inner, max_size=1),
        "additionalProperties": inner,
        "propertyNames": inner,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
        "items": inner,
        "prefixItems": many,
        "contains": inner,
        "minContains": small,
        "maxContains": small,
        "uniqueItems": st.booleans(),
        "allOf": many,
        "anyOf": many,
        "oneOf": many,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "minimum": small,
        "exclusiveMaximum": small,
        "multipleOf": st.sampled_from([0.5, 1, 2]),
        "minLength": small,
        "maxLength": small,
        "minItems": small,
        "maxItems": small,
        "minProperties": small,
        "maxProperties": small,
        "pattern": st.sampled_from(["^a", "b$", "ö"]),
        "$ref": st.just("#/$defs/named"),
    }
    return st.fixed_dictionaries({}, optional=keywords)


SCHEMAS = st.recursive(st.booleans(), schemas, max_leaves=4)


@cases(200)
@given(SCHEMAS, VALUES)
def test_a_value_matches_where_the_reference_implementation_says_so(schema: Any, value: Any) -> None:
    whole = {"$defs": {"named": {"type": ["string", "array"], "maxItems": 1}}, "allOf": [schema]}
    check_schema(whole)
    assert (not list(find_problems(whole, value))) == Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(3, "#: a schema is an object, true or false, not 3", id="no schema"),
        pytest.param({"items": {"type": "text"}}, "#/items/type: 'text' is not a type", id="a type"),
        pytest.param({"unevaluatedItems": False}, "#: unevaluatedItems is not supported", id="a keyword"),
        pytest.param({"$ref": "a.json"}, "#: 'a.json' leads out of the schema", id="another file"),
        pytest.param({"$ref": "#/$defs/a"}, "#: the schema has nothing at '#/$defs/a'", id="nothing there"),
        pytest.param({"pattern": "("}, "#: '(' is not a pattern", id="a pattern"),
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
    assert problem == "the answer.left: the member 'name' is missing"


def test_a_schema_that_only_leads_back_to_itself_is_an_error() -> None:
    with pytest.raises(SchemaError, match="leads back to itself"):
        list(find_problems({"$ref": "#"}, 1))


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

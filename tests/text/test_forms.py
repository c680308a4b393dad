"""Forms are read from any schema, and an answer is used only where it fits."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.text.forms import buttons_of, describe_form, fields_of, fit_content, normalise_schema

CHOICE = {"enum": ["pg", "lite"], "enumNames": ["Postgres", "SQLite"]}
SOME = {
    "type": "array",
    "items": {"anyOf": [{"const": "a", "title": "First"}, {"const": "b"}]},
    "maxItems": 1,
}


def schema(field: Any, *, is_required: bool = True) -> dict[str, Any]:
    return {"properties": {"x": field}, "required": ["x"] if is_required else []}


@pytest.mark.parametrize(
    ("field", "given", "fitted"),
    [
        pytest.param({"type": "string"}, "", "", id="an empty text is an answer"),
        pytest.param({"type": "integer"}, "7", 7, id="a number as text"),
        pytest.param({"type": "integer"}, 7.0, 7, id="a whole number as a float"),
        pytest.param({"type": "number"}, "0.5", 0.5, id="a fraction"),
        pytest.param({"type": "boolean"}, "No", False, id="a word for no"),
        pytest.param(CHOICE, "postgres", "pg", id="a choice by its label"),
        pytest.param(CHOICE, 2, "lite", id="a choice by its number"),
        pytest.param(SOME, "first", ["a"], id="some choices as text"),
        pytest.param(SOME, ["b"], ["b"], id="some choices"),
        pytest.param({"type": "integer", "default": 5}, None, 5, id="the default where there is no answer"),
        pytest.param({"type": "object"}, "x", "x", id="an unknown shape is a text"),
    ],
)
def test_an_answer_that_fits_is_used(field: Any, given: Any, fitted: Any) -> None:
    assert fit_content(schema(field), {"x": given, "unknown": 1}) == {"x": fitted}


@pytest.mark.parametrize(
    ("field", "given", "problem"),
    [
        pytest.param({"type": "string"}, None, "x: an answer is missing", id="none"),
        pytest.param({"type": "string", "minLength": 3}, "ab", "x: is less than 3 characters", id="short"),
        pytest.param({"type": "string"}, 7, "x: is not a text", id="a number for a text"),
        pytest.param({"type": "integer"}, "1.5", "x: is not a whole number", id="a fraction"),
        pytest.param({"type": "number"}, "nan", "x: is not a number", id="nan"),
        pytest.param({"type": "number"}, True, "x: is not a number", id="yes for a number"),
        pytest.param({"type": "integer", "maximum": 9}, 10, "x: is more than 9", id="too large"),
        pytest.param({"type": "boolean"}, "maybe", "x: is neither yes nor no", id="maybe"),
        pytest.param(CHOICE, "Oracle", "x: is not one of Postgres, SQLite", id="no choice"),
        pytest.param(SOME, ["a", "b"], "x: is more than 1 choices", id="too many"),
        pytest.param(SOME, 1, "x: is not a list of choices", id="no list"),
    ],
)
def test_any_other_answer_is_refused_in_words(field: Any, given: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"^{problem}$"):
        fit_content(schema(field), {"x": given})


def test_a_field_that_may_be_left_out_is_left_out() -> None:
    assert fit_content(schema({"type": "integer"}, is_required=False), {"x": ""}) == {}


@pytest.mark.parametrize("field", [CHOICE, SOME, {"type": "string", "format": "email", "minLength": 1}, {}])
def test_a_schema_is_normalised_once(field: Any) -> None:
    once = normalise_schema(schema(field))
    assert normalise_schema(once) == once
    assert fields_of(once) == fields_of(schema(field))


def test_hidden_characters_of_strangers_are_shown() -> None:
    (field,) = fields_of(schema({"title": "Port\u200b", "enum": ["a\u202eb"]}))
    assert (field.label, field.choices[0].label) == ("Port‹U+200B›", "a‹U+202E›b")


def test_a_form_of_one_choice_has_buttons_and_every_form_a_text() -> None:
    assert [(each.label, each.content) for each in buttons_of(schema(CHOICE))] == [
        ("Postgres", {"x": "pg"}),
        ("SQLite", {"x": "lite"}),
    ]
    assert [each.label for each in buttons_of({})] == ["Done"]
    assert buttons_of({"properties": {"x": CHOICE, "y": CHOICE}}) == buttons_of(schema(SOME)) == ()
    assert describe_form("Sign in", {}, "https://example.org") == "Sign in\nhttps://example.org"
    assert describe_form("Which?", schema(CHOICE | {"title": "Database", "default": "pg"})) == (
        "Which?\nDatabase\n- Postgres\n- SQLite\nWithout an answer: Postgres"
    )

"""Schemas as models want them, and checks that name the mistake."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.bash import BashArguments
from sidecar.capabilities.grep import GrepArguments
from sidecar.capabilities.typed_tool import arguments_schema, parse_arguments


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A nested struct."""

    title: str
    state: Literal["open", "done"] = "open"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A struct with one of each."""

    path: Annotated[str, msgspec.Meta(description="Where.")]
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    glob: Annotated[str | None, msgspec.Meta(description="Which.")] = None
    steps: tuple[Step, ...] = ()
    deep: bool = False


def test_the_schema_is_one_plain_object() -> None:
    assert arguments_schema(Sample) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "count": {"type": "integer", "minimum": 1, "default": 1},
            "glob": {"type": "string", "description": "Which."},
            "steps": {
                "type": "array",
                "default": [],
                "items": {
                    "type": "object",
                    "description": "A nested struct.",
                    "properties": {
                        "title": {"type": "string"},
                        "state": {"type": "string", "enum": ["done", "open"], "default": "open"},
                    },
                    "required": ["title"],
                },
            },
            "deep": {"type": "boolean", "default": False},
        },
        "required": ["path"],
    }


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        pytest.param({"path": "a"}, Sample(path="a"), id="defaults"),
        pytest.param({"path": "a", "count": "3"}, Sample(path="a", count=3), id="a number as text"),
        pytest.param({"path": "a", "deep": "true"}, Sample(path="a", deep=True), id="a truth as text"),
        pytest.param({"path": "a", "glob": None, "count": None}, Sample(path="a"), id="null is left out"),
        pytest.param({"path": "a", "reason": "x"}, Sample(path="a"), id="more than was asked for"),
        pytest.param({"file_path": "a"}, Sample(path="a"), id="file_path"),
        pytest.param({"filePath": "a"}, Sample(path="a"), id="filePath"),
        pytest.param({"file": "a"}, Sample(path="a"), id="file"),
        pytest.param({"file": "b", "path": "a"}, Sample(path="a"), id="path wins"),
        pytest.param(
            {"path": "a", "steps": [{"title": "t"}]}, Sample(path="a", steps=(Step(title="t"),)), id="nested"
        ),
        pytest.param(
            {"path": "a", "steps": '[{"title": "t"},]'}, Sample(path="a", steps=(Step(title="t"),)), id="text"
        ),
        pytest.param({"path": "a", "steps": "[]"}, Sample(path="a"), id="an empty list as text"),
        pytest.param({"title": "t", "file": "x"}, Step(title="t"), id="an alias is for tools with a path"),
    ],
)
def test_tolerant(raw: dict[str, Any], parsed: Sample | Step) -> None:
    assert parse_arguments(type(parsed), raw) == parsed


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        pytest.param({}, "missing required field `path`; given: nothing", id="nothing"),
        pytest.param({"pth": "a", "x": 1}, "missing required field `path`; given: pth, x", id="misspelled"),
        pytest.param({"path": 1}, "Expected `str`, got `int` - at `$.path`", id="wrong type"),
        pytest.param({"path": "a", "count": 0}, "Expected `int` >= 1 - at `$.count`", id="out of range"),
        pytest.param(
            {"path": "a", "count": "many"}, "Expected `int`, got `str`", id="text that is no number"
        ),
    ],
)
def test_clear(raw: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_arguments(Sample, raw)
    assert problem in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("it takes path (string, required), count (integer), ")


def test_half_a_character_in_a_name_is_a_mistake_that_can_be_told() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_arguments(Sample, {"\ud800": 1})
    assert "bad arguments: a name, or the text of a number, has half a character; given: ?" in str(
        caught.value
    )


def test_an_empty_path_is_the_default() -> None:
    assert parse_arguments(GrepArguments, {"pattern": "x", "path": ""}).path == "."


@pytest.mark.parametrize("command", ["ls -l", ["ls", "-l"], ["bash", "-lc", "ls -l"]])
def test_a_command_line_in_the_shapes_of_other_agents(command: object) -> None:
    for name in ("command", "cmd"):
        assert parse_arguments(BashArguments, {name: command}).command == "ls -l"

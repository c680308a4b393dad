"""The tools every session starts with, and what models are told of them."""

from __future__ import annotations

import json

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from sidecar.capabilities import default_tools
from sidecar.capabilities.contract import Tool

NAMES = {
    "read": "read",
    "grep": "search",
    "find": "search",
    "ls": "search",
    "glob": "search",
    "edit": "edit",
    "write": "edit",
    "bash": "execute",
    "todo": "think",
}


def test_names_and_kinds() -> None:
    assert {tool.descriptor.name: tool.kind for tool in default_tools()} == NAMES


@pytest.mark.parametrize("tool", default_tools(), ids=lambda tool: str(tool.descriptor.name))
def test_schemas_are_plain_and_every_argument_is_described(tool: Tool) -> None:
    schema = tool.descriptor.parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "$" not in json.dumps(schema)
    assert schema["type"] == "object"
    assert [name for name, each in schema["properties"].items() if not each.get("description")] == []
    assert tool.descriptor.description.endswith(".")
    assert tool.title({}) != ""

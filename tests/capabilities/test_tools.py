"""The tools every session starts with, and the checks that hold for each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from sidecar.capabilities.apply_patch import APPLY_PATCH
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.read import READ
from sidecar.capabilities.toolbox import UNLISTED_TOOLS, default_tools
from sidecar.text.calls import effects_of_name

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

ROWS = {
    "read": ("read", "reads"),
    "grep": ("search", "searches"),
    "find": ("search", "searches"),
    "ls": ("search", "searches"),
    "edit": ("edit", "edits"),
    "write": ("edit", "writes"),
    "bash": ("execute", "runs"),
    "bash_output": ("execute", "none"),
    "bash_kill": ("execute", "none"),
    "fetch": ("fetch", "searches"),
    "todo": ("think", "none"),
    "glob": ("search", "searches"),
    "apply_patch": ("edit", "patches"),
}
"""One row for each tool of our own: its kind for clients, and its effects."""

EVERY_TOOL: tuple[Tool, ...] = (*default_tools(), *UNLISTED_TOOLS, APPLY_PATCH)
every_tool = pytest.mark.parametrize("tool", EVERY_TOOL, ids=lambda tool: str(tool.descriptor.name))


def test_the_tools_of_our_own_are_in_the_table() -> None:
    found = {tool.descriptor.name: (tool.kind, tool.effects.kind) for tool in EVERY_TOOL}
    assert list(found.items()) == list(ROWS.items())


@every_tool
def test_a_tool_takes_an_argument_that_its_effects_name(tool: Tool) -> None:
    taken = tool.descriptor.parameters["properties"]
    assert tool.effects.kind == "none" or set(taken) & set(tool.effects.arguments)


@every_tool
def test_an_imported_call_of_the_same_name_has_the_same_effects(tool: Tool) -> None:
    assert effects_of_name(tool.descriptor.name) == tool.effects


@every_tool
async def test_a_tool_refuses_arguments_that_it_does_not_know_how_to_take(tool: Tool, desk: Desk) -> None:
    names = tool.descriptor.parameters["properties"]
    failure = await desk.failure(tool, **{name: {} for name in names})
    assert failure.startswith(f"{tool.descriptor.name}: bad arguments:")


@pytest.mark.processes
@every_tool
async def test_a_tool_that_may_change_something_asks_first(tool: Tool, desk: Desk) -> None:
    desk.answer = False
    desk.put("a.txt", "one\n")
    await desk.run(READ, {"path": "a.txt"})
    given = {"path": "a.txt", "old_text": "one", "new_text": "two", "content": "two", "command": "rm a.txt"}
    given |= {"pattern": "*", "name": "a"}
    given |= {"input": "*** Begin Patch\n*** Update File: a.txt\n-one\n+two\n*** End Patch"}
    taken = tool.descriptor.parameters["properties"]
    await desk.run(tool, {"entries": []} | {name: given[name] for name in given if name in taken})
    assert (len(desk.asked), desk.text("a.txt")) == (int(tool.effects.may_change), "one\n")


@every_tool
def test_schemas_are_plain_and_every_argument_is_described(tool: Tool) -> None:
    schema = tool.descriptor.parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "$" not in json.dumps(schema)
    assert schema["type"] == "object"
    assert [name for name, each in schema["properties"].items() if not each.get("description")] == []
    assert tool.descriptor.description.endswith(".")
    assert tool.title({}) != ""

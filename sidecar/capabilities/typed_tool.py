"""Tools made of functions: arguments as a struct, a title, the work; their JSON schema and its check.

Schema and check come from one frozen struct for each tool. The check is tolerant where models err harmlessly
(numbers, lists and objects as text, other names for ``path``, unknown fields, null for a missing one) and
clear where they do not. Bad arguments and expected failures become error replies; every other exception
passes through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar._internal.surrogates import encodable
from sidecar._internal.values import Value
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.paths import find_near
from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.text.calls import (
    COMMAND_ARGUMENTS,
    FOLDER_ARGUMENTS,
    PATH_ARGUMENTS,
    ToolEffects,
    ToolKind,
    unwrap_command,
)
from sidecar.text.mend import mend_value
from sidecar.workspace.contract import FileAccessError

A = TypeVar("A", bound=msgspec.Struct)
_OTHER_NAMES: Final = (
    dict.fromkeys(("old_string", "oldString", "oldText", "old_str"), "old_text")
    | dict.fromkeys(("new_string", "newString", "newText", "new_str"), "new_text")
    | dict.fromkeys(("replaceAll", "allow_multiple"), "replace_all")
    | dict.fromkeys(("run_in_background", "is_background"), "background")
    | {"todos": "entries", "regex": "pattern", "file_text": "content"}
)
"""Names of arguments that models have learned from other agents, and ours."""


class TypedTool(Value, Generic[A], kw_only=True):
    """One tool of our own.

    *describe* returns the title; *perform* does the work, and a ``SidecarError`` it raises becomes an error
    reply.
    """

    name: str
    description: str
    kind: ToolKind
    effects: ToolEffects
    arguments: type[A]
    describe: Callable[[A], str]
    perform: Callable[[A, ToolContext, CancelToken], Awaitable[ToolReply]]

    @property
    def descriptor(self) -> ToolDescriptor:
        """The name, description and parameters that a model is given."""
        return ToolDescriptor(self.name, self.description, arguments_schema(self.arguments))

    def title(self, arguments: Mapping[str, Any]) -> str:
        """Return one short line for clients."""
        try:
            return self.describe(parse_arguments(self.arguments, arguments))
        except InvalidInput:
            return self.name.capitalize()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        """Run one call; see ``Tool.run``."""
        try:
            parsed = parse_arguments(self.arguments, arguments)
            return await self.perform(parsed, context, cancel)
        except FileAccessError as error:
            near = (
                await find_near(getattr(parsed, "path", ""), context) if error.problem == "notFound" else ""
            )
            return error_reply(
                f"{self.name}: {error.message}", " else ".join(filter(None, (near, error.hint)))
            )
        except SidecarError as error:
            return error_reply(f"{self.name}: {error.message}", error.hint)


def error_reply(message: str, hint: str | None = None) -> ToolReply:
    """Return the reply of a failure: the *message*, and with *hint* the next step."""
    return ToolReply(message if hint is None else f"{message}; {hint}", is_error=True)


@cache
def arguments_schema(of: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of *of* as one plain object: no references, no titles, no nulls.

    It is made once, for every session offers the same tools, and must not be changed.
    """
    schema = msgspec.json.schema(of)
    definitions: dict[str, Any] = schema.get("$defs", {})
    tidied: dict[str, Any] = _tidy(schema, definitions)
    # The description of the struct is left out: that of the tool stands beside the schema.
    return {key: value for key, value in tidied.items() if value and key != "description"}


def parse_arguments(of: type[A], raw: Mapping[str, Any]) -> A:
    """Return *raw* as an *of*. Raises InvalidInput with the mistake and the arguments that the tool takes."""
    # Models send null for fields that they leave out.
    given_values: dict[str, Any] = _use_own_names(
        {name: value for name, value in raw.items() if value is not None}
    )
    for names in (PATH_ARGUMENTS, COMMAND_ARGUMENTS, FOLDER_ARGUMENTS):
        known = next((name for name in names if name in given_values), None)
        if names[0] in of.__struct_fields__ and known is not None:
            given_values[names[0]] = given_values[known]
    schema = arguments_schema(of)
    for name, each in schema["properties"].items():
        value = given_values.get(name)
        if isinstance(value, str) and each.get("type") in ("array", "object"):
            given_values[name] = _use_own_names(mend_value(value))
        elif isinstance(value, list) and name == "command":
            given_values[name] = unwrap_command(value)
        elif value == "" and name == "path" and "default" in each:
            del given_values[name]
    try:
        return msgspec.convert(given_values, of, strict=False)
    except UnicodeEncodeError:
        problem = "a name, or the text of a number, has half a character"
    except msgspec.ValidationError as error:
        problem = str(error)
    required = schema.get("required", ())
    usage = ", ".join(
        f"{name} ({each.get('type', 'value')}{', required' if name in required else ''})"
        for name, each in schema["properties"].items()
    )
    given = encodable(", ".join(sorted(map(str, raw)))) or "nothing"
    raise InvalidInput(f"bad arguments: {problem}; given: {given}", hint=f"it takes {usage}")


def _use_own_names(given: Any) -> Any:
    if isinstance(given, list):
        return [_use_own_names(each) for each in given]
    if not isinstance(given, Mapping):
        return given
    values = {name: _use_own_names(value) for name, value in given.items()}
    return {_OTHER_NAMES.get(name, name): value for name, value in values.items()} | {
        name: value for name, value in values.items() if name not in _OTHER_NAMES
    }


def _tidy(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list | tuple):
        return [_tidy(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _tidy(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {}
    for key, value in node.items():
        # A property may well be called "title": only the schema's own titles are text.
        is_title = key == "title" and isinstance(value, str)
        if key != "$defs" and not is_title and not (key == "default" and value is None):
            kept[key] = _tidy(value, definitions)
    if "enum" in kept:
        kept["type"] = "string"
    choices = [choice for choice in kept.pop("anyOf", ()) if choice != {"type": "null"}]
    return {**kept, **choices[0]} if len(choices) == 1 else kept | ({"anyOf": choices} if choices else {})

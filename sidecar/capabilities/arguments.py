"""Arguments of tools: the JSON schema a model is shown, and the check of what it sent.

Both come from one frozen struct per tool. Tolerant where models err harmlessly (numbers as text, other names
for ``path``, fields nobody asked for), clear where they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.effects import PATH_ARGUMENTS

__all__ = ["arguments_schema", "parse_arguments"]

A = TypeVar("A", bound=msgspec.Struct)


def arguments_schema(of: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of *of* as one plain object: no references, no titles, no nulls."""
    schema = msgspec.json.schema(of)
    definitions: dict[str, Any] = schema.get("$defs", {})
    tidied: dict[str, Any] = _tidy(schema, definitions)
    # What the struct is, the tool says itself.
    return {key: value for key, value in tidied.items() if value and key != "description"}


def parse_arguments(of: type[A], raw: Mapping[str, Any]) -> A:
    """Return *raw* as an *of*. Raises InvalidInput that says what is wrong and what is taken."""
    # Models send null for what they leave out.
    given_values = {name: value for name, value in raw.items() if value is not None}
    try:
        return msgspec.convert(_with_path(of, given_values), of, strict=False)
    except msgspec.ValidationError as error:
        problem = str(error)
    given = ", ".join(sorted(map(str, raw))) or "nothing"
    raise InvalidInput(f"bad arguments: {problem}; given: {given}", hint=f"it takes {_usage(of)}")


def _with_path(of: type[msgspec.Struct], raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if "path" in raw or "path" not in of.__struct_fields__:
        return raw
    alias = next((name for name in PATH_ARGUMENTS if name in raw), None)
    return raw if alias is None else {**raw, "path": raw[alias]}


def _usage(of: type[msgspec.Struct]) -> str:
    schema = arguments_schema(of)
    required = schema.get("required", ())
    return ", ".join(
        f"{name} ({each.get('type', 'value')}{', required' if name in required else ''})"
        for name, each in schema["properties"].items()
    )


def _tidy(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list | tuple):
        return [_tidy(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _tidy(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {key: _tidy(value, definitions) for key, value in node.items() if not _is_noise(key, value)}
    if "enum" in kept:
        kept["type"] = "string"
    choices = [choice for choice in kept.pop("anyOf", ()) if choice != {"type": "null"}]
    return {**kept, **choices[0]} if len(choices) == 1 else kept | ({"anyOf": choices} if choices else {})


def _is_noise(key: str, value: Any) -> bool:
    # A property may well be called "title": only the schema's own titles are text.
    return (
        key == "$defs" or (key == "title" and isinstance(value, str)) or (key == "default" and value is None)
    )

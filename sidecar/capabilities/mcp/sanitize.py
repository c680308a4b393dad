"""Sanitising the answers of servers: mistakes are mended before the protocol package sees them. Pure.

One tool that is described badly costs its server no other tool, and no provider refuses a whole request
because of it. The result of a call is one text, in which blocks of other kinds are described in words, and
the images behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

_SCHEMA_CHARS: Final = 65_536
_SCHEMA_DEPTH: Final = 64
_REFUSED: Final = frozenset(
    {"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref", "$schema"}
)
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_MOST_IMAGES: Final = 8
_WHOLE: Final = (None, "complete")


def sanitize_listing(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to ``tools/list`` with sound tools only, each name once; a tool must have a name.

    >>> sanitize_listing({"tools": [{"name": "a", "inputSchema": None}, {"title": "no name"}, 7]})
    {'tools': [{'name': 'a', 'inputSchema': {'type': 'object', 'properties': {}}}]}
    """
    tools: dict[str, dict[str, Any]] = {}
    for tool in _list(raw.get("tools")):
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"]:
            tools.setdefault(tool["name"], sanitize_tool(tool))
    kept = {key: value for key, value in raw.items() if key != "nextCursor" or isinstance(value, str)}
    return {**kept, "tools": list(tools.values())}


def sanitize_result(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to ``tools/call`` as one text and images; one that is no end stays as it is.

    >>> sanitize_result({"content": [{"type": "text", "text": "4"}, {"type": "audio", "data": "AAAA"}]})
    {'content': [{'type': 'text', 'text': '4\\n[audio, 3 bytes, not shown]'}], 'isError': False}
    """
    if raw.get("resultType") not in _WHOLE:
        return dict(raw)
    blocks = [describe_block(block) for block in _list(raw.get("content"))]
    if not blocks and raw.get("structuredContent") is not None:
        blocks = [_dump(raw["structuredContent"])]
    kept = {"resultType": raw["resultType"]} if "resultType" in raw else {}
    text = {"type": "text", "text": "\n".join(blocks)}
    images = [
        {"type": "image", "data": data, "mimeType": "image/*"}
        for block in _list(raw.get("content"))
        if isinstance(block, dict) and block.get("type") == "image"
        for data in [block.get("data")]
        if isinstance(data, str)
    ]
    return {**kept, "content": [text, *images[:_MOST_IMAGES]], "isError": raw.get("isError") is True}


def sanitize_schema(schema: object) -> dict[str, Any]:
    """Return *schema* as a schema that providers take; one that cannot be mended becomes that of any object.

    At its top level providers take only the properties of an object: the server checks the rest itself.

    >>> sanitize_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "oneOf": []})
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}}
    """
    if not isinstance(schema, dict) or not is_sendable_schema(schema):
        return {"type": "object", "properties": {}}
    kept = {key: value for key, value in schema.items() if key not in _REFUSED}
    required = [name for name in _list(kept.pop("required", None)) if isinstance(name, str)]
    properties = kept.get("properties")
    named = properties.items() if isinstance(properties, dict) else ()
    kept |= {
        "type": "object",
        "properties": {key: value if isinstance(value, dict) else {} for key, value in named},
    }
    return kept | {"required": required} if required else kept


def sanitize_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return *tool*, which has a name, with a sound schema and with its sound texts and hints."""
    annotations = tool.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    sound: dict[str, Any] = {"name": tool["name"], "inputSchema": sanitize_schema(tool.get("inputSchema"))}
    sound |= _texts(tool, ("title", "description"))
    if known := {key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)} | _texts(
        hints, ("title",)
    ):
        sound["annotations"] = known
    return sound


def _texts(of: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str]:
    return {key: of[key] for key in keys if isinstance(of.get(key), str)}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def is_sendable_schema(schema: dict[str, Any]) -> bool:
    """Whether *schema* can be sent to a provider at all: neither huge nor deep, and with finite numbers."""
    level: list[object] = [schema]
    for _ in range(_SCHEMA_DEPTH):
        parts = (each.values() if isinstance(each, dict) else _list(each) for each in level)
        level = [child for part in parts for child in part]
    if level:
        return False
    try:
        return len(json.dumps(schema, allow_nan=False)) <= _SCHEMA_CHARS
    except ValueError:
        return False


def describe_block(block: object) -> str:
    """Return the text of a block of a result; a block of another kind is described in words."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "data": str(data), **rest}:
            return f"[{_join_words('image', rest.get('mimeType'))}, {_n_bytes(data)} bytes]"
        case {"type": "audio", "data": str(data), **rest}:
            return f"[{_join_words('audio', rest.get('mimeType'))}, {_n_bytes(data)} bytes, not shown]"
        case {"type": "resource_link", "uri": str(uri), **rest}:
            return f"[{_join_words('resource', rest.get('title') or rest.get('name'), uri)}]"
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return f"[{_join_words('resource', uri)}]\n{text}"
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob), **rest}}:
            return (
                f"[{_join_words('resource', uri, rest.get('mimeType'))}, {_n_bytes(blob)} bytes, not shown]"
            )
    return block if isinstance(block, str) else _dump(block)


def _join_words(*words: object) -> str:
    return " ".join(word for word in words if isinstance(word, str) and word)


def _n_bytes(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

"""The protocol as one JSON Schema document: shapes under ``$defs``, messages by name beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, assert_never

from sidecar.protocol.errors import ERROR_KINDS
from sidecar.protocol.handshake import PROTOCOL
from sidecar.protocol.methods import CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS, Method
from sidecar.protocol.schema_model import (
    AnyOf,
    Choice,
    ListOf,
    MapOf,
    Named,
    Property,
    Scalar,
    Shape,
    Type,
)

__all__ = ["schema_document", "without_prose"]


def schema_document(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """Return the protocol. Members that are not named here are allowed, and ignored."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"sidecar protocol {PROTOCOL}",
        "methods": _methods(METHODS.values()),
        "clientRequests": _methods(CLIENT_REQUESTS.values()),
        "notifications": {
            row.name: {"doc": row.doc, "params": _ref(row.params.__name__), "since": row.since}
            for row in NOTIFICATIONS.values()
        },
        "events": {kind: _ref(payload.__name__) for kind, payload in EVENTS.items()},
        "errors": {row.kind: asdict(row) for row in ERROR_KINDS.values()},
        "$defs": {name: _object(shapes[name]) for name in sorted(shapes)},
    }


def without_prose(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a *document* of :func:`schema_document` without its sentences, only names and types."""
    tables = ("methods", "clientRequests", "notifications", "errors", "$defs")
    stripped = {
        table: {
            name: {key: value for key, value in row.items() if key not in ("doc", "description")}
            for name, row in document[table].items()
        }
        for table in tables
    }
    return {**document, **stripped}


def _methods(rows: Iterable[Method]) -> dict[str, Any]:
    return {
        row.name: {
            "doc": row.doc,
            "params": _ref(row.params.__name__),
            "result": _ref(row.result.__name__),
            "scope": row.scope,
            "capability": row.capability,
            "since": row.since,
        }
        for row in rows
    }


def _object(shape: Shape) -> dict[str, Any]:
    required = [each.name for each in shape.properties if each.is_required]
    found: dict[str, Any] = {"type": "object", "description": shape.doc}
    if shape.properties:
        found["properties"] = {each.name: _member(each) for each in shape.properties}
    return found | ({"required": required} if required else {})


def _member(member: Property) -> dict[str, Any]:
    return _type(member.type) | ({} if member.default is None else {"default": member.default})


def _type(kind: Type) -> dict[str, Any]:
    match kind:
        case Scalar(name):
            return {} if name == "any" else {"type": name}
        case Choice(words):
            return {"enum": list(words)}
        case ListOf(item):
            return {"type": "array", "items": _type(item)}
        case MapOf(value):
            return {"type": "object", "additionalProperties": _type(value)}
        case Named(name):
            return _ref(name)
        case AnyOf(arms):
            return {"anyOf": [_type(arm) for arm in arms]}
        case _:
            assert_never(kind)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}

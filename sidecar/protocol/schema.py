"""The description of the protocol in three forms: JSON Schema, TypeScript, and the reference for people.

The first two are made from the method table. The reference is ``REFERENCE.md`` beside this module: it is
generated from the same table and from the golden messages of the tests, and a test keeps it up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, assert_never

from sidecar.protocol.errors import ERROR_KINDS
from sidecar.protocol.handshake import PROTOCOL
from sidecar.protocol.method import Method, NotificationMethod
from sidecar.protocol.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS
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
    shapes_of,
)
from sidecar.protocol.schema_typescript import typescript

SchemaFormat: TypeAlias = Literal["jsonschema", "ts", "markdown"]

FILE_NAMES: dict[SchemaFormat, str] = {
    "jsonschema": "sidecar.schema.json",
    "ts": "sidecar.ts",
    "markdown": "REFERENCE.md",
}
"""The name of a file in each form."""

_REFERENCE = Path(__file__).with_name("REFERENCE.md")
_PROSE = ("doc", "description", "errors")


@cache
def schema_text(form: SchemaFormat, face: Literal["lsp", "acp"] = "lsp") -> str:
    """Return the description of the protocol, with the names that *face* has; it ends with a newline."""
    match form:
        case "jsonschema":
            text = json.dumps(schema_document(protocol_shapes()), indent=2) + "\n"
        case "ts":
            text = typescript(protocol_shapes())
        case "markdown":
            return _REFERENCE.read_text(encoding="utf-8")
    return text if face == "lsp" else text.replace('"sidecar/', '"_sidecar/')


@cache
def schema_hash() -> str:
    """Return ``sha256:`` and the hash of the JSON Schema without its prose.

    Two daemons with the same hash exchange the same messages; a reworded description does not change it.
    """
    structure = without_prose(schema_document(protocol_shapes()))
    return f"sha256:{sha256(json.dumps(structure, sort_keys=True).encode()).hexdigest()}"


@cache
def protocol_shapes() -> dict[str, Shape]:
    """Return every shape of the protocol by name."""
    by_clients, by_daemon = METHODS.values(), CLIENT_REQUESTS.values()
    from_clients = [
        *(row.params for row in by_clients),
        *(row.params for row in CLIENT_NOTIFICATIONS.values()),
        *(row.result for row in by_daemon),
    ]
    from_daemon = [
        *(row.result for row in by_clients),
        *(row.params for row in by_daemon),
        *(row.params for row in NOTIFICATIONS.values()),
        *EVENTS.values(),
    ]
    return shapes_of(from_clients, are_sent_by_us=False) | shapes_of(from_daemon, are_sent_by_us=True)


def schema_document(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """Return the protocol as one JSON Schema document, its messages by name beside ``$defs``.

    It allows members that it does not name, because every reader ignores them.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"sidecar protocol {PROTOCOL}",
        "methods": _methods(METHODS.values()),
        "clientRequests": _methods(CLIENT_REQUESTS.values()),
        "clientNotifications": _notifications(CLIENT_NOTIFICATIONS.values()),
        "notifications": _notifications(NOTIFICATIONS.values()),
        "events": {kind: _ref(payload.__name__) for kind, payload in EVENTS.items()},
        "errors": {row.kind: asdict(row) for row in ERROR_KINDS.values()},
        "$defs": {name: object_schema(shapes[name]) for name in sorted(shapes)},
    }


def without_prose(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a *document* of :func:`schema_document` without its sentences, only names and types."""
    tables = ("methods", "clientRequests", "clientNotifications", "notifications", "errors", "$defs")
    stripped = {
        table: {
            name: {key: value for key, value in row.items() if key not in _PROSE}
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
            "access": row.access,
            "capability": row.capability,
            "errors": list(row.errors),
            "since": row.since,
        }
        for row in rows
    }


def _notifications(rows: Iterable[NotificationMethod]) -> dict[str, Any]:
    return {
        row.name: {"doc": row.doc, "params": _ref(row.params.__name__), "since": row.since} for row in rows
    }


def object_schema(shape: Shape) -> dict[str, Any]:
    """Return *shape* as a JSON Schema; a member that is not required shows its default, if it has one."""

    def member(each: Property) -> dict[str, Any]:
        return _type(each.type) | ({} if each.default is None else {"default": each.default})

    required = [each.name for each in shape.properties if each.is_required]
    found: dict[str, Any] = {"type": "object", "description": shape.doc}
    if shape.properties:
        found["properties"] = {each.name: member(each) for each in shape.properties}
    return found | ({"required": required} if required else {})


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

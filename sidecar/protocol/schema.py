"""The description of the protocol in three forms: JSON Schema, TypeScript, and the reference for people.

The first two are made from the method table. The reference is ``REFERENCE.md`` beside this module: it is
generated from the same table and from the golden messages of the tests, and a test keeps it up to date.

A shape of the wire follows from its dataclass alone, as the codec reads it: wire names, optional members,
choices. TypeScript is written from the JSON Schema.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from sidecar.protocol.codec import to_camel, wire_name
from sidecar.protocol.errors import ERROR_KINDS
from sidecar.protocol.handshake import PROTOCOL
from sidecar.protocol.methods import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    EVENTS,
    METHODS,
    NOTIFICATIONS,
    Method,
    NotificationMethod,
)

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, of an object or of one of its members."""


def schemas_of(kinds: Iterable[type[Any]], *, are_sent_by_us: bool) -> dict[str, Schema]:
    """Return the schemas of *kinds* and of the dataclasses in them, by name; see :func:`object_schema`."""
    found: dict[str, Schema] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if kind.__name__ not in found:
            found[kind.__name__] = object_schema(kind, are_sent_by_us=are_sent_by_us)
            waiting.extend(_dataclasses_in(get_type_hints(kind).values()))
    return found


def object_schema(kind: type[Any], *, are_sent_by_us: bool) -> Schema:
    """Return the schema of a dataclass; a member that is not required shows its default, if it has one.

    A message that is *sent by us* has every member that is not null; a client may leave out defaults.
    """
    hints, members, required = get_type_hints(kind), dict[str, Schema](), list[str]()
    for each in fields(kind):
        name, member, default = wire_name(each), type_schema(hints[each.name]), each.default
        if default is None and "anyOf" in member:  # it is left out when it is null
            arms = [arm for arm in member["anyOf"] if arm != type_schema(type(None))]
            member = arms[0] if len(arms) == 1 else {"anyOf": arms}
        if default is MISSING or (are_sent_by_us and default is not None):
            required.append(name)
        elif default is not None:
            member["default"] = list(default) if isinstance(default, tuple) else default
        members[name] = member
    found: Schema = {"type": "object", "description": wire_doc(kind.__doc__ or "")}
    return found | ({"properties": members} if members else {}) | ({"required": required} if required else {})


def wire_doc(docstring: str) -> str:
    """Return a docstring as one paragraph of Markdown, with members and values as they are on the wire.

    >>> wire_doc("A file. *old_text* is None at first.")
    'A file. `oldText` is null at first.'
    """
    text = re.sub(r"^ +(\w+): ", r"*\1*: ", docstring.replace("    Attributes:\n", ""), flags=re.MULTILINE)
    text = re.sub(r"\*(\w+)\*", lambda name: f"`{to_camel(name[1])}`", " ".join(text.split()))
    return re.sub(r"\bNone\b", "null", text.replace("``", "`"))


def type_schema(hint: Any) -> Schema:
    """Return the schema of a field's annotation.

    >>> type_schema(tuple[str, ...])
    {'type': 'array', 'items': {'type': 'string'}}
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": [*arguments]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [*map(type_schema, arguments)]}
    if origin is tuple:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": type_schema(arguments[1])}
    if is_dataclass(hint):
        return _ref(hint)
    return {} if hint is Any else {"type": _SCALARS[hint]}


_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _ref(kind: Any) -> Schema:
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _dataclasses_in(hints: Iterable[Any]) -> Iterator[type[Any]]:
    for hint in hints:
        if is_dataclass(hint) and isinstance(hint, type):
            yield hint
        else:
            yield from _dataclasses_in(arm for arm in get_args(hint) if arm is not Ellipsis)


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
            text = json.dumps(schema_document(), indent=2) + "\n"
        case "ts":
            text = typescript()
        case "markdown":
            return _REFERENCE.read_text(encoding="utf-8")
    return text if face == "lsp" else text.replace('"sidecar/', '"_sidecar/')


@cache
def schema_hash() -> str:
    """Return ``sha256:`` and the hash of the JSON Schema without its prose.

    Two daemons with the same hash exchange the same messages; a reworded description does not change it.
    """
    structure = without_prose(schema_document())
    return f"sha256:{sha256(json.dumps(structure, sort_keys=True).encode()).hexdigest()}"


@cache
def protocol_shapes() -> dict[str, Schema]:
    """Return the schema of every shape of the protocol by name."""
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
    return schemas_of(from_clients, are_sent_by_us=False) | schemas_of(from_daemon, are_sent_by_us=True)


def schema_document() -> dict[str, Any]:
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
        "events": {kind: _ref(payload) for kind, payload in EVENTS.items()},
        "errors": {row.kind: asdict(row) for row in ERROR_KINDS.values()},
        "$defs": dict(sorted(protocol_shapes().items())),
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
            "params": _ref(row.params),
            "result": _ref(row.result),
            "scope": row.scope,
            "access": row.access,
            "capability": row.capability,
            "errors": list(row.errors),
            "since": row.since,
        }
        for row in rows
    }


def _notifications(rows: Iterable[NotificationMethod]) -> dict[str, Any]:
    return {row.name: {"doc": row.doc, "params": _ref(row.params), "since": row.since} for row in rows}


def typescript() -> str:
    """Return the declarations of the shapes, and the maps from the names of messages to them."""
    lines = [
        f"// The sidecar protocol, number {PROTOCOL}. Written by `sidecar schema --format ts`.",
        "// A choice of words may grow: treat a word that you do not know as one that needs no action.",
    ]
    for name, shape in sorted(protocol_shapes().items()):
        lines += _interface(name, shape["description"], dict(ts_members(shape)))
    reports = {json.dumps(row.name): row.params.__name__ for row in CLIENT_NOTIFICATIONS.values()}
    notices = {json.dumps(row.name): row.params.__name__ for row in NOTIFICATIONS.values()}
    kinds = {json.dumps(kind): payload.__name__ for kind, payload in EVENTS.items()}
    lines += [
        *_interface("Methods", "The requests of a client.", _requests(METHODS)),
        *_interface("ClientRequests", "The requests of the daemon.", _requests(CLIENT_REQUESTS)),
        *_interface("ClientNotifications", "The params of a client's notifications, by method.", reports),
        *_interface("Notifications", "The params of the daemon's notifications, by method.", notices),
        *_interface("EventData", "The data of an event, by its kind.", kinds),
        "",
        "/** The kinds of errors, in `error.data.kind`. */",
        f"export type ErrorKind = {' | '.join(map(json.dumps, ERROR_KINDS))};",
    ]
    return "\n".join(lines) + "\n"


def ts_members(shape: Schema) -> Iterator[tuple[str, str]]:
    """Yield the members of *shape* in TypeScript, each with its type; one that may be missing has a ``?``."""
    for name, member in shape.get("properties", {}).items():
        yield f"{name}{'' if name in shape.get('required', ()) else '?'}", ts_type(member)


def ts_type(schema: Schema) -> str:
    """Return the type *schema* in TypeScript.

    >>> ts_type({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    '(string | null)[]'
    """
    match schema:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"enum": words}:
            return " | ".join(map(json.dumps, words))
        case {"anyOf": arms}:
            return " | ".join(map(ts_type, arms))
        case {"items": item}:
            inner = ts_type(item)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case {"additionalProperties": value}:
            return f"Record<string, {ts_type(value)}>"
    kind = str(schema.get("type", "unknown"))
    return "number" if kind == "integer" else kind


def _requests(rows: Mapping[str, Method]) -> dict[str, str]:
    return {
        json.dumps(row.name): f"{{ params: {row.params.__name__}; result: {row.result.__name__} }}"
        for row in rows.values()
    }


def _interface(name: str, doc: str, members: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield f"/** {doc} */"
    yield f"export interface {name} {{"
    yield from (f"  {member}: {kind};" for member, kind in members.items())
    yield "}"

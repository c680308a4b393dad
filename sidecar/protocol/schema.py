"""The description of the protocol in three forms: JSON Schema, TypeScript, and the reference for people.

The first two are made from the method table. The reference is ``REFERENCE.md`` beside this module: it is
generated from the same table and from the golden messages of the tests, and a test keeps it up to date.

A shape of the wire follows from its dataclass alone, as the codec reads it: wire names, optional members,
choices. Both forms are written from these shapes.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, assert_never, get_args, get_origin, get_type_hints

from sidecar._internal.values import Value
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


class Scalar(Value):
    """``string``, ``integer``, ``number``, ``boolean``, ``null``, or ``any`` JSON value."""

    name: str


class Choice(Value):
    """One of some words."""

    words: tuple[str, ...]


class ListOf(Value):
    """An array."""

    item: Type


class MapOf(Value):
    """An object with any names."""

    value: Type


class Named(Value):
    """Another shape."""

    name: str


class AnyOf(Value):
    """One of several types."""

    arms: tuple[Type, ...]


Type: TypeAlias = Scalar | Choice | ListOf | MapOf | Named | AnyOf


class Property(Value):
    """One member of a shape; *default* is the JSON value of an absent member, None if it has none."""

    name: str
    type: Type
    is_required: bool
    default: Any = None


class Shape(Value):
    """One object of the wire; *doc* names its members as they are spelled there."""

    name: str
    doc: str
    properties: tuple[Property, ...]


def shapes_of(kinds: Iterable[type[Any]], *, are_sent_by_us: bool) -> dict[str, Shape]:
    """Return the shapes of *kinds* and of the dataclasses in them, by name.

    A message that is *sent by us* has every member that is not null; a client may leave out defaults.
    """
    found: dict[str, Shape] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if kind.__name__ not in found:
            hints = get_type_hints(kind)
            members = (property_of(field, hints[field.name], are_sent_by_us) for field in fields(kind))
            found[kind.__name__] = Shape(kind.__name__, wire_doc(kind.__doc__ or ""), tuple(members))
            waiting.extend(_dataclasses_in(hints.values()))
    return found


def wire_doc(docstring: str) -> str:
    """Return a docstring as one paragraph of Markdown, with members and values as they are on the wire.

    >>> wire_doc("A file. *old_text* is None at first.")
    'A file. `oldText` is null at first.'
    """
    text = re.sub(r"^ +(\w+): ", r"*\1*: ", docstring.replace("    Attributes:\n", ""), flags=re.MULTILINE)
    text = re.sub(r"\*(\w+)\*", lambda name: f"`{to_camel(name[1])}`", " ".join(text.split()))
    return re.sub(r"\bNone\b", "null", text.replace("``", "`"))


def type_of(hint: Any) -> Type:
    """Return the type of a field's annotation.

    >>> type_of(tuple[str, ...])
    ListOf(item=Scalar(name='string'))
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return Choice(arguments)
    if origin in (Union, types.UnionType):
        return AnyOf(tuple(map(type_of, arguments)))
    if origin is tuple:
        return ListOf(type_of(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return MapOf(type_of(arguments[1]))
    if is_dataclass(hint):
        return Named(hint.__name__)  # type: ignore[union-attr]  # an annotation names the class
    return Scalar(_SCALARS[hint])


_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Any: "any",
}


def property_of(field: Field[Any], hint: Any, are_sent_by_us: bool) -> Property:
    """Return *field* of type *hint* as a member; in a message of ours only a null may be left out."""
    has_default = field.default is not MISSING
    kind = type_of(hint)
    if has_default and field.default is None and isinstance(kind, AnyOf):  # it is left out when it is null
        arms = tuple(arm for arm in kind.arms if arm != Scalar("null"))
        kind = arms[0] if len(arms) == 1 else AnyOf(arms)
    is_required = not has_default or (are_sent_by_us and field.default is not None)
    default = None if is_required else field.default
    return Property(
        wire_name(field), kind, is_required, list(default) if isinstance(default, tuple) else default
    )


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


_TS_SCALARS = {"integer": "number", "any": "unknown"}


def typescript(shapes: Mapping[str, Shape]) -> str:
    """Return the declarations of *shapes*, and the maps from the names of messages to them."""
    lines = [
        f"// The sidecar protocol, number {PROTOCOL}. Written by `sidecar schema --format ts`.",
        "// A choice of words may grow: treat a word that you do not know as one that needs no action.",
    ]
    for name in sorted(shapes):
        members = {
            f"{each.name}{'' if each.is_required else '?'}": ts_type(each.type)
            for each in shapes[name].properties
        }
        lines += _interface(name, shapes[name].doc, members)
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


def ts_type(kind: Type) -> str:
    """Return *kind* in TypeScript.

    >>> ts_type(ListOf(AnyOf((Scalar("string"), Scalar("null")))))
    '(string | null)[]'
    """
    match kind:
        case Scalar(name):
            return _TS_SCALARS.get(name, name)
        case Choice(words):
            return " | ".join(map(json.dumps, words))
        case ListOf(item):
            inner = ts_type(item)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case MapOf(value):
            return f"Record<string, {ts_type(value)}>"
        case Named(name):
            return name
        case AnyOf(arms):
            return " | ".join(map(ts_type, arms))
        case _:
            assert_never(kind)


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

"""The protocol as TypeScript declarations. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import assert_never

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

__all__ = ["ts_type", "typescript"]

_SCALARS = {"integer": "number", "any": "unknown"}


def typescript(shapes: Mapping[str, Shape]) -> str:
    """Return the protocol: an interface a shape, and maps from names to what they carry."""
    return "\n".join(_lines(shapes)) + "\n"


def ts_type(kind: Type) -> str:
    """Return *kind* in TypeScript.

    >>> ts_type(ListOf(AnyOf((Scalar("string"), Scalar("null")))))
    '(string | null)[]'
    """
    match kind:
        case Scalar(name):
            return _SCALARS.get(name, name)
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


def _lines(shapes: Mapping[str, Shape]) -> Iterator[str]:
    yield f"// The sidecar protocol, number {PROTOCOL}. Written by `sidecar schema --format ts`."
    yield "// Words to choose from may grow: take one you do not know for one you need not act on."
    for name in sorted(shapes):
        yield ""
        yield from _interface(shapes[name])
    yield from _requests("Methods", "What a client may ask of the daemon.", METHODS)
    yield from _requests("ClientRequests", "What the daemon may ask of a client.", CLIENT_REQUESTS)
    notices = {row.name: row.params.__name__ for row in NOTIFICATIONS.values()}
    yield from _map("Notifications", "What the daemon says by itself, by method.", notices)
    kinds = {kind: payload.__name__ for kind, payload in EVENTS.items()}
    yield from _map("EventData", "What an event carries, by kind.", kinds)
    yield ""
    yield "/** What `error.data.kind` may be. */"
    yield f"export type ErrorKind = {' | '.join(map(json.dumps, ERROR_KINDS))};"


def _interface(shape: Shape) -> Iterator[str]:
    yield f"/** {shape.doc} */"
    yield f"export interface {shape.name} {{"
    yield from (f"  {_member(each)};" for each in shape.properties)
    yield "}"


def _member(member: Property) -> str:
    return f"{member.name}{'' if member.is_required else '?'}: {ts_type(member.type)}"


def _requests(name: str, doc: str, rows: Mapping[str, Method]) -> Iterator[str]:
    pairs = {
        row.name: f"{{ params: {row.params.__name__}; result: {row.result.__name__} }}"
        for row in rows.values()
    }
    yield from _map(name, doc, pairs)


def _map(name: str, doc: str, members: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield f"/** {doc} */"
    yield f"export interface {name} {{"
    yield from (f"  {json.dumps(key)}: {value};" for key, value in members.items())
    yield "}"

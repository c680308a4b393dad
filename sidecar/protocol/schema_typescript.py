"""The protocol as TypeScript declarations: an interface for each shape, and maps from names to messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import assert_never

from sidecar.protocol.errors import ERROR_KINDS
from sidecar.protocol.handshake import PROTOCOL
from sidecar.protocol.method import Method
from sidecar.protocol.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS
from sidecar.protocol.schema_model import AnyOf, Choice, ListOf, MapOf, Named, Scalar, Shape, Type

_SCALARS = {"integer": "number", "any": "unknown"}


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

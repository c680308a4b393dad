"""The protocol as a page for people: ``REFERENCE.md`` beside this module, which a test keeps true. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sidecar.protocol.errors import ERROR_KINDS
from sidecar.protocol.methods import CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS, Method
from sidecar.protocol.schema_model import Property, Shape
from sidecar.protocol.schema_prose import ACP_UPDATES, INTRODUCTION, LEFT_OUT
from sidecar.protocol.schema_ts import ts_type

__all__ = ["markdown"]


def markdown(shapes: Mapping[str, Shape]) -> str:
    """Return the page."""
    return "\n\n".join(_parts(shapes)) + "\n"


def _parts(shapes: Mapping[str, Shape]) -> Iterator[str]:
    yield from INTRODUCTION
    yield "## Methods"
    yield _table(
        ("method", "", "order"),
        [(_link(row.name), row.doc, row.scope) for row in METHODS.values()],
    )
    for row in METHODS.values():
        yield from _method(row, shapes)
    yield "## What the daemon asks of a client"
    for row in CLIENT_REQUESTS.values():
        yield from _method(row, shapes)
    yield "## What the daemon says by itself"
    for notice in NOTIFICATIONS.values():
        yield f"### `{notice.name}`"
        yield notice.doc
        yield _code(_signature("params", shapes[notice.params.__name__]))
        yield shapes[notice.params.__name__].doc
    yield "## Events"
    yield "What `data` of a `sidecar/event` is, by its `kind`."
    yield _table(
        ("kind", "data", ""),
        [
            (f"`{kind}`", _shape_link(kind_.__name__), shapes[kind_.__name__].doc)
            for kind, kind_ in EVENTS.items()
        ],
    )
    yield "## Shapes"
    for name in sorted(set(shapes) - _shown()):
        yield f"### {name}"
        yield shapes[name].doc
        yield _code(_signature("", shapes[name]))
    yield "## Errors"
    yield "`error.data` is `{kind, retryable, sid?, turnId?, hint?, details?}`. Go by `kind`, not by code."
    yield _table(
        ("kind", "LSP", "ACP", "try again", ""),
        [
            (f"`{row.kind}`", str(row.lsp), str(row.acp), "yes" if row.retryable else "", row.doc)
            for row in ERROR_KINDS.values()
        ],
    )
    yield "## On the Agent Client Protocol"
    yield _table(("event", "first edition", "draft"), ACP_UPDATES)
    yield "## Left out"
    yield _table(("what", "why"), LEFT_OUT)


def _method(row: Method, shapes: Mapping[str, Shape]) -> Iterator[str]:
    params, result = shapes[row.params.__name__], shapes[row.result.__name__]
    yield f"### `{row.name}`"
    needs = f" Needs the capability `{row.capability}`." if row.capability else ""
    yield f"{row.doc}{needs}"
    yield _code([*_signature("params", params), *_signature("result", result)])
    yield " ".join(shape.doc for shape in (params, result) if shape.properties)


def _signature(name: str, shape: Shape) -> list[str]:
    head = f"{name} {{" if name else "{"
    if not shape.properties:
        return [f"{head}}}"]
    return [head, *(f"  {_member(each)}" for each in shape.properties), "}"]


def _member(member: Property) -> str:
    default = "" if member.default is None else f" = {json.dumps(member.default)}"
    return f"{member.name}{'' if member.is_required else '?'}: {ts_type(member.type)}{default}"


def _shown() -> set[str]:
    """Return the shapes that are written out where they are used."""
    rows = (*METHODS.values(), *CLIENT_REQUESTS.values())
    names = {kind.__name__ for row in rows for kind in (row.params, row.result)}
    notices = {row.params.__name__ for row in NOTIFICATIONS.values()}
    return (names | notices) - {kind.__name__ for kind in EVENTS.values()}


def _code(lines: Iterable[str]) -> str:
    return "\n".join(("```ts", *lines, "```"))


def _link(method: str) -> str:
    return f"[`{method}`](#{method.replace('/', '').lower()})"


def _shape_link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (
        " | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, ["---"] * len(head), *rows)
    )
    return "\n".join(f"| {line} |" for line in lines)

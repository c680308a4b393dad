"""The generator of ``sidecar/protocol/REFERENCE.md``.

It fills a template from the method table, with the golden messages as examples. Run as a program (``make
reference``) it plays the session of ``lifecycle.py`` again, and writes the page and the types of the
TypeScript client. The package ships the page, not the generator.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import lifecycle
from sidecar.protocol.errors import COMMON_ERRORS, ERROR_KINDS
from sidecar.protocol.methods import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    EVENTS,
    METHODS,
    NOTIFICATIONS,
    Method,
)
from sidecar.protocol.schema import Schema, protocol_shapes, schema_text, ts_members

TESTS = Path(__file__).parents[1]
TEMPLATE = TESTS / "reference" / "template.md"
LIFECYCLE = TESTS / "reference" / "lifecycle.json"
GOLDEN = TESTS / "golden"
PAGE = TESTS.parent / "sidecar" / "protocol" / "REFERENCE.md"
TYPES = TESTS.parent / "clients" / "typescript" / "src" / "protocol.ts"
_WIDTH = 100


def reference_page() -> str:
    """Return the page."""
    parts = {
        "lifecycle": _lifecycle(),
        "methods_table": _table(
            ("method", "purpose", "order", "access"),
            [(_link(row.name), row.doc, row.scope, row.access) for row in METHODS.values()],
        ),
        "common_errors": _listed(COMMON_ERRORS),
        "methods": _sections(_method("methods", row) for row in METHODS.values()),
        "client_requests": _sections(_method("requests", row) for row in CLIENT_REQUESTS.values()),
        "client_notifications": _sections(map(_notification, CLIENT_NOTIFICATIONS)),
        "notifications": _sections(map(_notification, NOTIFICATIONS)),
        "events_table": _table(
            ("kind", "data", "purpose"),
            [
                (f"[`{kind}`](#event-{kind.lower()})", _shape_link(data), _doc(data))
                for kind, data in EVENTS.items()
            ],
        ),
        "events": _sections(map(_event, EVENTS)),
        "shapes": _sections(_shape(name) for name in sorted(set(protocol_shapes()) - _shown_elsewhere())),
        "errors_table": _table(
            ("kind", "LSP", "ACP", "retryable", "cause"),
            [
                (f"`{row.kind}`", str(row.lsp), str(row.acp), "yes" if row.retryable else "", row.doc)
                for row in ERROR_KINDS.values()
            ],
        ),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], TEMPLATE.read_text(encoding="utf-8"))


def acp_updates() -> list[tuple[str, str, str]]:
    """Return the rows of the table of events on the Agent Client Protocol."""
    text = TEMPLATE.read_text(encoding="utf-8").partition("## Events on the Agent")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [(row[0].strip(), row[1].strip(), row[2].strip()) for row in rows[2:]]


def golden(folder: str, name: str) -> Any:
    """Return the checked example of a message."""
    path = GOLDEN / folder / f"{name.removeprefix('sidecar/').replace('/', '.')}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def pretty(value: Any, indent: str = "") -> str:
    """Return *value* as JSON, filling the lines; an object or array that fits on one line stands on one.

    >>> print(pretty({"a": [1, 2], "b": {}}))
    {"a": [1, 2], "b": {}}
    """
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {pretty(item, deeper)}" for name, item in value.items()]
    else:
        items = [pretty(item, deeper) for item in value]
    lines = [items[0]]
    for item in items[1:]:
        if "\n" not in lines[-1] + item and len(deeper) + len(lines[-1]) + len(item) + 2 <= _WIDTH:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{closing}"


def _lifecycle() -> str:
    recorded = json.loads(LIFECYCLE.read_text(encoding="utf-8"))
    return "\n".join(("```text", *(f"{side} {pretty(message, '    ')}" for side, message in recorded), "```"))


def _method(folder: str, row: Method) -> Iterator[str]:
    params, result = _shape_of(row.params), _shape_of(row.result)
    yield f"### `{row.name}`"
    yield row.doc + (f" The client must declare `{row.capability}`." if row.capability else "")
    yield _code("ts", [*_signature("params", params), *_signature("result", result)])
    for title, shape in (("Params", params), ("Result", result)):
        if "properties" in shape:
            yield f"*{title}.* {shape['description']}"
    example = golden(folder, row.name)
    yield _code(
        "json",
        [pretty({"method": row.name, "params": example["params"]}), pretty({"result": example["result"]})],
    )
    errors = (*(("controlRequired",) if row.access == "control" else ()), *row.errors)
    if errors:
        yield f"*Errors.* {_listed(errors)}."


def _notification(name: str) -> Iterator[str]:
    row = (NOTIFICATIONS | CLIENT_NOTIFICATIONS)[name]
    shape = _shape_of(row.params)
    yield f"### `{name}`"
    yield row.doc
    yield _code("ts", _signature("params", shape))
    if "properties" in shape:
        yield shape["description"]
    example = golden("notifications", name)
    yield _code("json", [pretty({"method": name, "params": example["params"]})])


def _event(kind: str) -> Iterator[str]:
    shape = _shape_of(EVENTS[kind])
    yield f"### Event `{kind}`"
    yield shape["description"]
    yield _code("ts", _signature("data", shape))
    yield _code("json", [pretty(golden("events", kind))])


def _shape(name: str) -> Iterator[str]:
    yield f"### {name}"
    yield protocol_shapes()[name]["description"]
    yield _code("ts", _signature("", protocol_shapes()[name]))


@cache
def _shown_elsewhere() -> set[str]:
    """Return the names of the shapes that are written out in the section of their message."""
    rows = (*METHODS.values(), *CLIENT_REQUESTS.values())
    kinds = {kind for row in rows for kind in (row.params, row.result)}
    kinds |= {row.params for row in (NOTIFICATIONS | CLIENT_NOTIFICATIONS).values()} | set(EVENTS.values())
    nested = {"Compaction", "ContextUsage", "Plan", "PermissionRequest"}
    return {kind.__name__ for kind in kinds} - nested


def _shape_of(kind: type[Any]) -> Schema:
    return protocol_shapes()[kind.__name__]


def _doc(kind: type[Any]) -> str:
    return re.split(r"(?<=\.)\s", _shape_of(kind)["description"])[0]


def _signature(name: str, shape: Schema) -> list[str]:
    head, members = f"{name} {{" if name else "{", shape.get("properties", {}).values()
    if not members:
        return [f"{head}}}"]
    defaults = (f" = {json.dumps(each['default'])}" if "default" in each else "" for each in members)
    lines = zip(ts_members(shape), defaults, strict=True)
    return [head, *(f"  {member}: {kind}{default}" for (member, kind), default in lines), "}"]


def _sections(sections: Iterable[Iterable[str]]) -> str:
    return "\n\n".join("\n\n".join(section) for section in sections)


def _code(language: str, lines: Iterable[str]) -> str:
    return "\n".join((f"```{language}", *lines, "```"))


def _listed(kinds: Sequence[str]) -> str:
    names = [f"`{kind}`" for kind in kinds]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _link(method: str) -> str:
    return f"[`{method}`](#{method.replace('/', '').lower()})"


def _shape_link(kind: type[Any]) -> str:
    name = kind.__name__
    return f"`{name}`" if name in _shown_elsewhere() else f"[{name}](#{name.lower()})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (
        " | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, ["---"] * len(head), *rows)
    )
    return "\n".join(f"| {line} |" for line in lines)


def write() -> None:
    """Play the session again, then write the page and the types."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = lifecycle.record(Path(folder).resolve())
    LIFECYCLE.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8", newline="\n")
    PAGE.write_text(reference_page(), encoding="utf-8", newline="\n")
    TYPES.write_text(schema_text("ts"), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write()

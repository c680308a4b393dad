"""Lines of a session as rows, and back.

A node's row is its content alone, under its hash, so that forks and copies share it. The rest (its kind, the
files that were read) stands in the record of the session. The record of a checkpoint names the content of a
file that it kept, by hash as well. A damaged node, with an id that is not the hash of its content, is kept
whole in the record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.runtime.store.codec import encode_record, hash_record, records_of
from sidecar.runtime.store.lines import Line, parse_line

_MAX_WORDS: Final = 20_000
"""The characters of a turn that can be searched for."""


class Row(Value):
    """A record as it is stored: *body* in JSON, and for a node its id, its content and its text.

    *content* is the name of the file content that a checkpoint kept.
    """

    body: str
    node_id: str | None = None
    node: str = ""
    words: str = ""
    content: str | None = None


def rows_of(lines: bytes) -> list[Row]:
    """Return the rows of sealed *lines*; a batch becomes its records."""
    parsed = [line for raw in lines.split(b"\n") if (line := parse_line(raw)) is not None]
    for line in parsed:
        line.pop("sum", None)
    return [row_of(record) for line in parsed for record in records_of(line)]


def lines_of(rows: Iterable[tuple[str, str | None]]) -> Iterator[Line]:
    """Yield the lines that *rows* stand for: pairs of a body, and of its node's content or None.

    They have no checksums; a node is checked by its id.
    """
    for number, (body, node) in enumerate(rows, start=1):
        record = json.loads(body)
        if node is not None:  # second, as in a line
            record = {"type": record.pop("type"), "node": json.loads(node), **record}
        yield Line(number, record)


def newest_meta(rows: Sequence[Row]) -> str | None:
    """Return the last meta record of *rows*, or None."""
    return next((row.body for row in reversed(rows) if row.body.startswith('{"type":"meta"')), None)


def row_of(record: Mapping[str, Any]) -> Row:
    """Return the row of *record*."""
    node = record.get("node")
    if record.get("type") != "node" or not isinstance(node, Mapping) or not is_whole(node):
        name = record.get("content") if record.get("type") == "checkpoint" else None
        return Row(_encode(record), content=name if isinstance(name, str) else None)
    rest = {name: value for name, value in record.items() if name != "node"}
    return Row(_encode(rest), str(node["id"]), _encode(node), words_of(node["turn"]))


def is_whole(node: Mapping[str, Any]) -> bool:
    """Whether the id of *node* is the hash of its content."""
    try:
        found: object = node["id"]
        return hash_record(node["parent"], node["turn"], node["createdAt"]) == found
    except (KeyError, TypeError, ValueError):
        return False


def _encode(record: Mapping[str, Any]) -> str:
    return encode_record(record).decode()


def words_of(turn: Mapping[str, Any]) -> str:
    """Return the text of *turn* that can be searched for."""
    blocks = [block for block in turn.get("blocks", ()) if isinstance(block, Mapping)]
    found = [block.get("text") or block.get("output") for block in blocks]
    text = "\n".join(each[:_MAX_WORDS] for each in found if isinstance(each, str))[:_MAX_WORDS]
    return to_text(text.lower())  # a database may know the upper case of plain ASCII alone


def to_text(text: str) -> str:
    """Return *text* without the characters that the database refuses."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()

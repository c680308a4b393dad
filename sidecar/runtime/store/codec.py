"""Turns, nodes, entries and heads as the lines of a session file, and back.

The shape on disk is an interface: field names are camelCase, optional fields are left out when None. A record
that does not fit is refused here; the reader decides how to go on.

The id of a node is a hash of its canonical JSON, RFC 8785, so that the order of keys does not change an id.
RFC 8785 refuses integers past 2**53, NaN, the infinities and lone surrogates; those are written in full,
in one fixed form that no other value shares.

A batch is several records on one line. A crash cuts a line off as a whole, so it leaves all records of a
batch or none.

The output of any tool is stored with as little lost as possible. JSON values stay exactly as they are; for
the rest there is one form each:

- tuples, other collections and sets become arrays, sets in the order of their JSON texts;
- keys that are not strings become their JSON text; if two keys fall together, the object becomes an array of
  ``[key, value]`` pairs;
- bytes become ``{"$base64": "..."}``, enumerations their value, dataclasses an object of their fields,
  dates and times ISO 8601;
- integers of more than about 4,000 digits become hexadecimal text, because JSON readers refuse them;
- two surrogates that make a character together become that character, a lone one stays;
- a value that contains itself, or nests deeper than 100 levels, ends in a marker there;
- any other object becomes its ``repr``.

The result is the same when it is converted again, and the conversion never raises.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import hashlib
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, time
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
import rfc8785
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.strategies import configure_tagged_union

from sidecar._internal.surrogates import join_halves
from sidecar.conversation import Entry, EntryKind, FileRead, UsageAnchor
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store.lines import seal

_MAX_DEPTH: Final = 100
_MAX_EXACT: Final = 2**53 - 1
_MAX_INT_BITS: Final = 13_000
_CIRCULAR: Final = "[contains itself]"
_TOO_DEEP: Final = "[nested too deeply]"


def to_json(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return *value* as a JSON value: None, bool, int, float, str, list or dict with string keys.

    *above* are the identities of the containers around it.

    >>> to_json({"a": (1, b"x"), "b": {3, 1}})
    {'a': [1, {'$base64': 'eA=='}], 'b': [1, 3]}
    >>> to_json({1: "one", None: "none"})
    {'1': 'one', 'null': 'none'}
    """
    match value:
        case None | bool() | float():
            return value
        case enum.Enum():
            return to_json(value.value, above)
        case int():
            return int(value) if value.bit_length() <= _MAX_INT_BITS else hex(value)
        case str():
            text = str.__str__(value)
            return text if text.isascii() else join_halves(text)
        case bytes() | bytearray() | memoryview():
            return {"$base64": base64.b64encode(value).decode("ascii")}
        case date() | time():
            return value.isoformat()
        case _:
            return _container(value, above)


def _container(value: Any, above: tuple[int, ...]) -> Any:
    if id(value) in above:
        return _CIRCULAR
    if len(above) >= _MAX_DEPTH:
        return _TOO_DEEP
    within, items, named = (*above, id(value)), list[Any](), dict[str, Any]()
    try:
        if isinstance(value, Mapping):
            for key, each in value.items():
                name, item = to_json(key), to_json(each, within)
                items.append([name, item])
                named[name if isinstance(key, str) else _json_text(name)] = item
            # An array of pairs where two keys would fall together.
            return named if len(named) == len(items) else items
        if isinstance(value, Iterable) and not isinstance(value, type | Iterator):
            for each in value:
                items.append(to_json(each, within))
            return sorted(items, key=_json_text) if isinstance(value, Set) else items
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                named[field.name] = to_json(getattr(value, field.name), within)
            return named
        return join_halves(repr(value))
    except Exception:
        # A tool's own object may raise from any of its methods; storing the session must not depend on it.
        return f"<{type(value).__name__}>"


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


RecogniseKind: TypeAlias = Callable[[Turn], EntryKind]
"""Returns the kind of a turn that was stored without one, by its role and text."""

_ID_CHARS: Final = 32
_BLOCKS: Final = (TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock, ImageBlock, CommandBlock)
_TURNS: Final[Mapping[str, type[UserTurn] | type[AssistantTurn] | type[ToolTurn]]] = {
    turn.role: turn for turn in (UserTurn, AssistantTurn, ToolTurn)
}


def _pass_through(value: Any, _: object = None) -> Any:
    return value


_OVERRIDES: Final = {
    "call_id": override(rename="callId"),
    "is_error": override(rename="isError"),
    "media_type": override(rename="mediaType"),
    "data_base64": override(rename="dataBase64"),
    "input": override(unstruct_hook=_pass_through, struct_hook=_pass_through),
    "output": override(unstruct_hook=_pass_through, struct_hook=_pass_through),
}
"""The spelling of fields on disk, and the fields that hold any value."""


_NAMES: Final = frozenset({"id", "parent", "callId", "call_id", "name", "path", "uri", "hash"})
"""Fields of blocks, nodes and reads with texts that occur many times in a session."""


def _text(value: Any, _: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


@cache  # not at once: a session without a turn needs none
def _converter() -> Converter:
    converter = Converter(detailed_validation=False)
    converter.register_structure_hook(str, _text)
    for block in _BLOCKS:
        special: dict[str, Any] = {
            name: each for name, each in _OVERRIDES.items() if name in block.__dataclass_fields__
        }
        write = make_dict_unstructure_fn(block, converter, _cattrs_omit_if_default=True, **special)
        converter.register_unstructure_hook(block, write)
        converter.register_structure_hook(block, make_dict_structure_fn(block, converter, **special))
    configure_tagged_union(Block, converter, tag_generator=operator.attrgetter("kind"), tag_name="kind")
    return converter


def turn_to_record(turn: Turn) -> dict[str, Any]:
    """Return *turn* as JSON; values in it that are not JSON are converted (see :func:`to_json`).

    >>> turn_to_record(ToolTurn((ToolResultBlock("c1", "ok", is_error=False),)))["blocks"]
    [{'callId': 'c1', 'output': 'ok', 'isError': False, 'kind': 'tool_result'}]
    """
    blocks = _converter().unstructure(turn.blocks, unstructure_as=tuple[Block, ...])
    return {"role": turn.role, "blocks": to_json(blocks)}


def settled_turn(turn: Turn) -> tuple[Turn, dict[str, Any]]:
    """Return *turn* as a reload would bring it back, and its record.

    It is *turn* itself unless a value in it was not JSON.
    """
    record = turn_to_record(turn)
    stored = turn_from_record(record)
    try:
        is_same = stored == turn
    except Exception:
        # A tool's own object may refuse to be compared.
        is_same = False
    return (turn if is_same else stored), record


def turn_from_record(record: Any) -> Turn:
    """Return the turn that *record* describes.

    Raises:
        ValueError, TypeError, KeyError: a role or kind that is not known, or a field that is missing or of
            the wrong type.
    """
    if record["role"] not in _TURNS:
        raise ValueError("unknown role")
    blocks: tuple[Block, ...] = _converter().structure(record["blocks"], tuple[Block, ...])
    return _TURNS[record["role"]](blocks)


class _StoredRead(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A file read as it is stored."""

    path: str
    uri: str
    hash: str
    source: Literal["buffer", "disk"]
    call_id: str = ""
    version: int | None = None
    ranges: tuple[tuple[int, int | None], ...] = ()


class _StoredEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry without its turn, as it is stored.

    Earlier versions stored an ``anchor``, which is not read: its estimate is that of another meter.
    """

    kind: EntryKind
    reads: tuple[_StoredRead, ...] = ()
    origin: tuple[str, ...] = ()
    size: tuple[int, int] | None = None


def entry_record(entry: Entry) -> dict[str, Any]:
    """Return the stored form of *entry* without its turn and node."""
    reads = tuple([_StoredRead(**dataclasses.asdict(read)) for read in entry.reads]) if entry.reads else ()
    size = None if entry.anchor is None else (entry.anchor.reported_tokens, entry.anchor.estimated_tokens)
    built: dict[str, Any] = msgspec.to_builtins(_StoredEntry(entry.kind, reads, entry.origin, size))
    return built


def entry_from_record(
    record: Mapping[str, Any], node: SessionNode, recognise: RecogniseKind, *, share: Callable[[str], str]
) -> Entry:
    """Return the entry of a node line.

    Args:
        record: the whole line; earlier versions wrote no ``entry`` in it.
        node: the node of that line.
        recognise: returns the kind of a turn by its text, for a line without one.
        share: returns the one string in memory for all that are equal: a file is read many times.
    """
    try:
        stored = msgspec.convert(record["entry"], _StoredEntry)
    except (KeyError, ValueError):
        stored = _StoredEntry(recognise(node.turn))
    return Entry(
        node.turn,
        stored.kind,
        reads=tuple(FileRead(**_share_names(msgspec.structs.asdict(read), share)) for read in stored.reads),
        origin=stored.origin,
        anchor=None if stored.size is None else UsageAnchor(*stored.size),
        node_id=node.id,
        parent=node.parent,
        created_at=node.created_at,
    )


def node_record(node: SessionNode, entry: Entry | None = None) -> dict[str, Any]:
    """Return the record of a node line, together with its entry where one is given."""
    body = {
        "id": node.id,
        "parent": node.parent,
        "turn": turn_to_record(node.turn),
        "createdAt": node.created_at,
    }
    record: dict[str, Any] = {"type": "node", "node": body}
    return record if entry is None else record | {"entry": entry_record(entry)}


def node_from_record(record: Mapping[str, Any], *, share: Callable[[str], str] = str) -> SessionNode:
    """Return the node of a node line; raises as :func:`turn_from_record`.

    Its parent is mostly the node before it, a result names its call, and a tool is called many times: *share*
    returns one string for each of them, where there would be copies in memory.
    """
    body = _share_names(record["node"], share)
    parent, created_at = body["parent"], body["createdAt"]
    if not isinstance(parent, str | None) or not isinstance(created_at, int):
        raise TypeError("parent is not an id, or createdAt is not a number")
    blocks = [_share_names(block, share) for block in body["turn"]["blocks"]]
    turn = turn_from_record({**body["turn"], "blocks": blocks})
    return SessionNode(_text(body["id"], None), parent, turn, created_at)


def _share_names(record: Mapping[str, Any], share: Callable[[str], str]) -> dict[str, Any]:
    return {
        key: share(each) if key in _NAMES and isinstance(each, str) else each for key, each in record.items()
    }


def head_record(leaf: str | None) -> dict[str, Any]:
    """Return the record of a head line."""
    return {"type": "head", "leaf": leaf}


def encode_record(record: Mapping[str, Any]) -> bytes:
    """Return *record* as JSON in UTF-8, without a newline."""
    try:
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped it survives.
        return json.dumps(record, separators=(",", ":")).encode("ascii")


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return *record* as one line with its checksum."""
    return seal(encode_record(record))


def encode_batch(encoded: Sequence[bytes]) -> bytes:
    """Return *encoded*, two records or more, as one line that holds all of them, in their order.

    >>> encode_batch([b'{"type":"a"}', b'{"type":"b"}'])
    b'{"type":"batch","records":[{"type":"a"},{"type":"b"}],"sum":"1de3617b"}\\n'
    """
    return seal(b'{"type":"batch","records":[%b]}' % b",".join(encoded))


def records_of(record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the records of a line: *record* itself unless it is a batch.

    Raises:
        KeyError, TypeError: it is a batch that holds something else than records.
    """
    if record.get("type") != "batch":
        return (record,)
    return [{**inner} for inner in record["records"]]


def canonical_json(value: Any) -> str:
    """Return the JSON value *value* as RFC 8785 text, or in the fixed form for values that it refuses.

    >>> canonical_json({"b": 1.0, "a": "é"})
    '{"a":"é","b":1}'
    >>> canonical_json([2**60, float("nan")])
    '[1152921504606846976,NaN]'
    """
    try:
        if is_sorted_alike(value):
            return msgspec.json.encode(value, order="sorted").decode("utf-8")
        return rfc8785.dumps(value).decode("utf-8")
    except ValueError:
        # Full integers, NaN and \\udXXX escapes never occur in RFC 8785 text, so the forms cannot meet.
        return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def is_sorted_alike(value: Any) -> bool:
    """Whether RFC 8785 text of *value* is its shortest JSON with sorted keys, which is ten times as fast.

    They differ where numbers are floats or too large for one, and in the order of keys beyond ASCII.

    >>> is_sorted_alike({"a": ["é", 1, None]}), is_sorted_alike([1.0]), is_sorted_alike({"é": 1})
    (True, False, False)
    """
    kind = type(value)
    if kind is dict:
        names_are_ascii = set(map(type, value)) <= {str} and all(map(str.isascii, value))
        return names_are_ascii and all(map(is_sorted_alike, value.values()))
    if kind is list:
        return all(map(is_sorted_alike, value))
    return kind is str or kind is bool or value is None or (kind is int and abs(value) <= _MAX_EXACT)


def hash_node(parent: str | None, turn: Turn, created_at: int) -> str:
    """Return the id of the node with *turn* under *parent*: 32 hex digits.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> hash_node(None, UserTurn((TextBlock("hi"),)), 0)
    '0ed48b6ef87051cde314b35d61cb688c'
    """
    return hash_record(parent, turn_to_record(turn), created_at)


def hash_record(parent: str | None, turn: Any, created_at: int) -> str:
    """Return the id of a node. *turn* is a record already, see :func:`turn_to_record`."""
    text = canonical_json({"parent": parent, "turn": turn, "createdAt": created_at})
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_ID_CHARS]

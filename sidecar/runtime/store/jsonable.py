"""Any value as JSON: the output of any tool, made storable with as little lost as possible.

JSON values stay exactly as they are. For the rest, one documented form each:

- tuples, other collections and sets become arrays, sets in the order of their JSON texts;
- keys that are not strings become their JSON text; if two keys fall together, the object becomes an array of
  ``[key, value]`` pairs;
- bytes become ``{"$base64": "..."}``, enumerations their value, dataclasses an object of their fields,
  dates and times ISO 8601;
- integers of more than about 4,000 digits become hexadecimal text, because JSON readers refuse them;
- two surrogates that make a character together become that character, a lone one stays;
- a value that contains itself, or nests deeper than 100 levels, ends in a marker there;
- any other object becomes its ``repr``.

The result is the same when it is converted again. Nothing here raises.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import date, time
from typing import Any, Final

from sidecar._internal.surrogates import join_halves

_MAX_DEPTH: Final = 100
_MAX_INT_BITS: Final = 13_000
_CIRCULAR: Final = "[contains itself]"
_TOO_DEEP: Final = "[nested too deeply]"


def to_json(value: Any) -> Any:
    """Return *value* as a JSON value: None, bool, int, float, str, list or dict with string keys.

    >>> to_json({"a": (1, b"x"), "b": {3, 1}})
    {'a': [1, {'$base64': 'eA=='}], 'b': [1, 3]}
    >>> to_json({1: "one", None: "none"})
    {'1': 'one', 'null': 'none'}
    """
    return _convert(value, ())


def _convert(value: Any, above: tuple[int, ...]) -> Any:
    match value:
        case None | bool() | float():
            return value
        case enum.Enum():
            return _convert(value.value, above)
        case int():
            return int(value) if value.bit_length() <= _MAX_INT_BITS else hex(value)
        case str():
            return join_halves(str.__str__(value))
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
    within = (*above, id(value))
    try:
        if isinstance(value, Mapping):
            return _object([(key, _convert(each, within)) for key, each in value.items()])
        if isinstance(value, Set):
            return sorted((_convert(each, within) for each in value), key=_json_text)
        if isinstance(value, Iterable) and not isinstance(value, type | Iterator):
            return [_convert(each, within) for each in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
            return {name: _convert(each, within) for name, each in fields}
        return join_halves(repr(value))
    except Exception:
        # A tool's own object may raise from any of its methods; storing the session must not depend on it.
        return f"<{type(value).__name__}>"


def _object(pairs: list[tuple[Any, Any]]) -> Any:
    """Return *pairs* as an object, or as an array of pairs where two keys would fall together."""
    named = {
        join_halves(str.__str__(key)) if isinstance(key, str) else _json_text(_convert(key, ())): value
        for key, value in pairs
    }
    if len(named) == len(pairs):
        return named
    return [[_convert(key, ()), value] for key, value in pairs]


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

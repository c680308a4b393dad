"""Frozen values to the store's records and back: one JSON object a value, named by its ``type``.

What comes from a file may be damaged or of another version: it is checked here, and nowhere after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import msgspec

__all__ = ["from_record", "to_record"]

T = TypeVar("T")


def to_record(kind: str, value: Any) -> dict[str, Any]:
    """Return *value* as a record of type *kind*; its fields are JSON values, tuples or mappings."""
    record: dict[str, Any] = {"type": kind}
    for spec in fields(value):
        record[spec.name] = _plain(getattr(value, spec.name))
    return record


def from_record(cls: type[T], record: Mapping[str, Any]) -> T | None:
    """Return the value of *record*, or None when a field is missing or of the wrong type; others are ignored.

    >>> from sidecar.conductor.contract import TokenCounts
    >>> from_record(TokenCounts, {"input": 3, "output": "four"}) is None
    True
    """
    try:
        return msgspec.convert(record, cls)
    except ValueError:  # no value of that type, or half a character where a known word should stand
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value

"""Frozen values to the store's records and back: one JSON object a value, named by its ``type``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

__all__ = ["from_record", "to_record"]

T = TypeVar("T")


def to_record(kind: str, value: Any) -> dict[str, Any]:
    """Return *value* as a record of type *kind*; its fields are JSON values, tuples or mappings."""
    record: dict[str, Any] = {"type": kind}
    for spec in fields(value):
        record[spec.name] = _plain(getattr(value, spec.name))
    return record


def from_record(cls: type[T], record: Mapping[str, Any]) -> T | None:
    """Return the value of a record, or None when it lacks a field that has no default; others are ignored."""
    known = {spec.name for spec in fields(cls)}  # type: ignore[arg-type]
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.items()
        if name in known
    }
    try:
        return cls(**values)
    except TypeError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value

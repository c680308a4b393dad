"""Items of arrays and objects on the wire: a converter stops when too many of them are wrong.

cattrs collects an exception for each wrong item, about four kilobytes with its frames. A message of a few
megabytes, such as an array of a million zeros where objects are expected, would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args, get_origin

from cattrs import Converter
from cattrs.cols import is_sequence
from cattrs.errors import IterableValidationError, IterableValidationNote

MAX_WRONG_ITEMS: Final = 20


def limit_wrong_items(converter: Converter) -> None:
    """Let *converter* read arrays and typed objects item by item, and raise at the twentieth wrong item."""

    def read_items(items: Iterable[tuple[int | str, Any]], kind: Any, item_kind: Any) -> list[Any]:
        values, wrong = [], []
        for place, item in items:
            try:
                values.append(converter.structure(item, item_kind))
            except Exception as error:
                error.add_note(IterableValidationNote(f"structuring {kind} @ {place}", place, item_kind))
                wrong.append(error)
                if len(wrong) == MAX_WRONG_ITEMS:
                    break
        if wrong:
            raise IterableValidationError(f"structuring {kind}", wrong, kind)
        return values

    def read_array(value: Any, kind: Any) -> Sequence[Any]:
        if not isinstance(value, list):
            raise TypeError(f"expected an array, found {json_type(value)}")
        items = read_items(enumerate(value), kind, get_args(kind)[0])
        return tuple(items) if get_origin(kind) is tuple else items

    def read_object(value: Any, kind: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, found {json_type(value)}")
        return dict(zip(value, read_items(value.items(), kind, get_args(kind)[1]), strict=True))

    def is_array(kind: Any) -> bool:
        return is_sequence(kind) and bool(get_args(kind))

    def is_object(kind: Any) -> bool:
        return get_origin(kind) in (dict, Mapping) and bool(get_args(kind))

    converter.register_structure_hook_func(is_array, read_array)
    converter.register_structure_hook_func(is_object, read_object)


def json_type(value: Any) -> str:
    """Return the JSON type of *value*, in words for an error message."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)

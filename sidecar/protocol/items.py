"""Items of arrays and objects on the wire: a converter stops when too many of them are wrong.

cattrs collects an exception for each wrong item, about four kilobytes with its frames. A message of a few
megabytes, such as an array of a million zeros where objects are expected, would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args, get_origin

from cattrs import Converter
from cattrs.cols import is_sequence
from cattrs.errors import IterableValidationError, IterableValidationNote

MAX_WRONG_ITEMS: Final = 20


def limit_wrong_items(converter: Converter) -> None:
    """Let *converter* read arrays and typed objects item by item, and raise at the twentieth wrong item."""

    def make_reader(kind: Any) -> Callable[[Any, Any], Any]:
        is_object, is_tuple = get_origin(kind) in (dict, Mapping), get_origin(kind) is tuple
        item_kind = get_args(kind)[is_object]
        read = converter.get_structure_hook(item_kind)

        def read_items(value: Any, _: Any) -> Any:
            if not isinstance(value, dict if is_object else list):
                wanted = "an object" if is_object else "an array"
                raise TypeError(f"expected {wanted}, found {json_type(value)}")
            items, wrong = [], []
            places: Iterable[tuple[int | str, Any]] = (
                value.items() if isinstance(value, dict) else enumerate(value)
            )
            for place, item in places:
                try:
                    items.append(read(item, item_kind))
                except Exception as error:
                    error.add_note(IterableValidationNote(f"structuring {kind} @ {place}", place, item_kind))
                    wrong.append(error)
                    if len(wrong) == MAX_WRONG_ITEMS:
                        break
            if wrong:
                raise IterableValidationError(f"structuring {kind}", wrong, kind)
            if is_object:
                return dict(zip(value, items, strict=True))
            return tuple(items) if is_tuple else items

        return read_items

    def has_items(kind: Any) -> bool:
        return bool(get_args(kind)) and (get_origin(kind) in (dict, Mapping) or is_sequence(kind))

    converter.register_structure_hook_factory(has_items, make_reader)


def json_type(value: Any) -> str:
    """Return the JSON type of *value*, in words for an error message."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)

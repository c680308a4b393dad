"""JSON values to messages and back: camelCase on the wire, frozen dataclasses in Python.

cattrs builds one reader and one writer for each dataclass, once. Three rules are added to it. Reading is
strict: a number is never taken for a string, nor true for 1. Unknown members are ignored, so that a newer
client can talk to an older daemon. A mistake raises :class:`InvalidInput` with every wrong place, not only
the first.

cattrs is loaded with the first message that is read or written: a client has started its daemon by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from itertools import islice
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.events import Event

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

MAX_WRONG_ITEMS: Final = 20


def to_camel(name: str) -> str:
    """Return the spelling of a field on the wire.

    >>> to_camel("user_node_id")
    'userNodeId'
    """
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def wire_name(field: Field[Any]) -> str:
    """Return the name of *field* on the wire: that of its metadata, else its own in camelCase."""
    return str(field.metadata.get("wire", to_camel(field.name)))


def from_wire(kind: type[T], value: Any, path: str = "params", *, is_open: bool = False) -> T:
    """Return *value*, decoded JSON, as a *kind*. Raises InvalidInput with every wrong place.

    Names that *kind* does not have are told as well then: one of them may stand for a missing field.

    Args:
        kind: a dataclass.
        value: the params of a request, or a result.
        path: the name of *value* in messages.
        is_open: whether a choice may be a word that this version does not know.
    """
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidInput(f"{path} must be an object, found {json_type(value)}")
    try:
        hashable: Any = kind  # mypy does not take a type for one
        result: T = reader_of(hashable, is_open=is_open)(value, kind)
        return result
    except Exception as error:
        from cattrs import transform_error

        def explain(error: BaseException, _kind: Any) -> str:
            if isinstance(error, KeyError):
                return f'required field "{to_camel(str(error.args[0]))}" is missing'
            return str(error) or type(error).__name__

        places = dict.fromkeys(transform_error(error, path=path, format_exception=explain))
        parts = (place.rpartition(" @ ") for place in places)
        reasons = (f"{why} @ {'.'.join(map(to_camel, where.split('.')))}" for why, _, where in parts)
        known = [*map(wire_name, fields(hashable))]
        unknown = ", ".join(islice((f"{name!r:.40}" for name in value if name not in known), 3))
        hint = f"there is no {unknown} in {path}; it may have {', '.join(known)}" if unknown else None
        raise InvalidInput("; ".join(reasons), hint=hint) from None


def result_from_wire(kind: type[T], value: Any) -> T:
    """Return a daemon's answer as a *kind*. Raises InvalidInput for another shape.

    A choice of words is open here: a newer daemon may send a word that this version does not know.
    """
    return from_wire(kind, value, "result", is_open=True)


def to_wire(value: Any) -> Any:
    """Return *value* as JSON-ready data. A field that is None by default is left out while it is None."""
    return writer_of(value.__class__)(value)


def event_to_wire(event: Event) -> dict[str, Any]:
    """Return *event* as the params of ``sidecar/event``."""
    wire: dict[str, Any] = {
        "sid": event.sid,
        "seq": event.seq,
        "at": event.at,
        "kind": event.data.kind,
        "data": to_wire(event.data),
    }
    if event.turn_id is not None:
        wire["turnId"] = event.turn_id
    return wire


@cache
def reader_of(kind: Any, *, is_open: bool) -> Callable[[Any, Any], Any]:
    """Return the function that reads a *kind*; the converter itself would look it up for each value."""
    return _converter(is_open=is_open).get_structure_hook(kind)


@cache
def writer_of(kind: Any) -> Callable[[Any], Any]:
    """Return the function that writes a *kind*."""
    return _converter(is_open=False).get_unstructure_hook(kind)


@cache
def _converter(*, is_open: bool) -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

    converter = Converter(detailed_validation=True, forbid_extra_keys=False)

    def spell(kind: Any) -> dict[str, Any]:
        overrides = {}
        for field in fields(kind):
            overrides[field.name] = override(rename=wire_name(field), omit_if_default=field.default is None)
        return overrides

    @cache  # the converter forgets its hooks whenever it meets a new type of list
    def make_reader(kind: Any) -> Any:
        read = make_dict_structure_fn(kind, converter, _cattrs_detailed_validation=True, **spell(kind))

        def read_object(value: Any, kind: Any) -> Any:
            if type(value) is not dict and not isinstance(value, Mapping):
                raise TypeError(f"expected an object, found {json_type(value)}")
            return read(value, kind)

        return read_object

    @cache
    def make_writer(kind: Any) -> Any:
        return make_dict_unstructure_fn(kind, converter, **spell(kind))

    def read_choice(value: Any, kind: Any) -> Any:
        is_known = any(_fits(value, arm) for arm in _arms(kind))
        if is_known or (is_open and isinstance(value, str)):
            return value
        wanted = " or ".join(word for arm in _arms(kind) for word in _describe(arm))
        found = f'"{value[:40]}"' if isinstance(value, str) else json_type(value)
        raise TypeError(f"expected {wanted}, found {found}")

    converter.register_structure_hook_factory(is_dataclass, make_reader)
    converter.register_unstructure_hook_factory(is_dataclass, make_writer)
    for scalar in _SCALARS:
        converter.register_structure_hook(scalar, read_strictly)
    converter.register_structure_hook_func(_is_choice, read_choice)
    limit_wrong_items(converter)
    return converter


_SCALARS = {str: "a string", int: "an integer", bool: "true or false", float: "a number"}


def read_strictly(value: Any, kind: type[Any]) -> Any:
    """Return *value* unchanged. Raises TypeError where Python would convert it, as from 5 to "5"."""
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise TypeError(f"expected {_SCALARS[kind]}, found {json_type(value)}")
    return value


def _is_choice(kind: Any) -> bool:
    """Return whether *kind* is a literal, or a union of types that only the value itself tells apart."""
    if get_origin(kind) is Literal:
        return True
    is_union = get_origin(kind) in (Union, UnionType)
    return is_union and len({*get_args(kind), type(None)}) > 2


def _arms(kind: Any) -> tuple[Any, ...]:
    return (kind,) if get_origin(kind) is Literal else get_args(kind)


def _fits(value: Any, arm: Any) -> bool:
    if arm is type(None):
        return value is None
    if get_origin(arm) is Literal:
        return value in get_args(arm)
    if get_origin(arm) is not None:
        return isinstance(value, Mapping)
    return type(value) is arm


def _describe(arm: Any) -> list[str]:
    """Return the values that *arm* takes, in words for an error message."""
    if get_origin(arm) is Literal:
        return [f'"{value}"' for value in get_args(arm)]
    return ["an object" if get_origin(arm) is not None else _SCALARS.get(arm, "null")]


def limit_wrong_items(converter: Converter) -> None:
    """Let *converter* read arrays and typed objects item by item, and raise at the twentieth wrong item.

    cattrs collects an exception for each wrong item, about four kilobytes with its frames. An array of a
    million zeros where objects are expected would take gigabytes.
    """
    from cattrs.cols import is_sequence
    from cattrs.errors import IterableValidationError, IterableValidationNote

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

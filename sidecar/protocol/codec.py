"""JSON values to messages and back: camelCase on the wire, frozen dataclasses inside. cattrs does the work.

Unknown fields are ignored. What does not fit raises :class:`InvalidInput`, naming each place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import GenericAlias, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from cattrs import Converter, transform_error
from cattrs.cols import list_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.events import Event

__all__ = ["camel", "event_to_wire", "from_wire", "result_from_wire", "to_wire", "wire_name"]

T = TypeVar("T")


def camel(name: str) -> str:
    """Return the wire's spelling of a field.

    >>> camel("user_node_id")
    'userNodeId'
    """
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def from_wire(kind: type[T], value: Any) -> T:
    """Return *value* as a *kind*. Raises InvalidInput with every place that does not fit."""
    return _structure(_converter(), kind, value, "params")


def result_from_wire(kind: type[T], value: Any) -> T:
    """Return an answer of the daemon's as a *kind*; words that this version does not know are kept.

    Enums are open on the wire: a newer daemon may say more. Raises InvalidInput for another shape.
    """
    return _structure(_converter(is_open=True), kind, value, "result")


def to_wire(value: Any) -> Any:
    """Return *value* as JSON-ready data; fields that are None are left out, but for the nullable ones."""
    return _converter().unstructure(value)


def event_to_wire(event: Event) -> dict[str, Any]:
    """Return *event* as the params of ``sidecar/event``."""
    wire: dict[str, Any] = {
        "sid": event.sid,
        "seq": event.seq,
        "at": event.at,
        "kind": event.data.kind,
        "data": _converter().unstructure(event.data),
    }
    if event.turn_id is not None:
        wire["turnId"] = event.turn_id
    return wire


def _structure(converter: Converter, kind: type[T], value: Any, path: str) -> T:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{path} must be an object, found {_json_type(value)}")
    try:
        return converter.structure(value, kind)
    except Exception as error:
        places = transform_error(error, path=path, format_exception=_explain)
        raise InvalidInput("; ".join(map(_camel_path, dict.fromkeys(places)))) from None


@cache
def _converter(*, is_open: bool = False) -> Converter:
    converter = Converter(detailed_validation=True, forbid_extra_keys=False)
    converter.register_structure_hook_factory(is_dataclass, lambda kind: _structure_hook(converter, kind))
    converter.register_unstructure_hook_factory(is_dataclass, lambda kind: _unstructure_hook(converter, kind))
    for scalar in (str, int, bool, float):
        converter.register_structure_hook(scalar, _strict)
    converter.register_structure_hook_func(_is_choice, _structure_open if is_open else _structure_choice)
    converter.register_structure_hook_factory(_is_tuple, lambda kind: _tuple_hook(converter, kind))
    return converter


def _structure_hook(converter: Converter, kind: Any) -> Any:
    renames = {field.name: override(rename=wire_name(field)) for field in fields(kind)}
    return make_dict_structure_fn(kind, converter, _cattrs_detailed_validation=True, **renames)  # type: ignore[arg-type]  # an override is any keyword


def _unstructure_hook(converter: Converter, kind: Any) -> Any:
    overrides = {
        field.name: override(rename=wire_name(field), omit_if_default=field.default is None)
        for field in fields(kind)
    }
    return make_dict_unstructure_fn(kind, converter, **overrides)  # type: ignore[arg-type]  # an override is any keyword


def wire_name(field: Field[Any]) -> str:
    """Return the name of *field* on the wire."""
    return str(field.metadata.get("wire", camel(field.name)))


def _strict(value: Any, kind: type[Any]) -> Any:
    """Refuse what Python would coerce: a number for a string, a string for a number, a bool for an int."""
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise TypeError(f"expected {_WORDS[kind]}, found {_json_type(value)}")
    return value


_WORDS = {str: "a string", int: "an integer", bool: "true or false", float: "a number"}


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _tuple_hook(converter: Converter, kind: Any) -> Any:
    structure = list_structure_factory(GenericAlias(list, get_args(kind)[0]), converter)  # type: ignore[arg-type]  # made while it runs

    def hook(value: Any, _kind: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError(f"expected an array, found {_json_type(value)}")
        return tuple(structure(value, None))

    return hook


def _is_choice(kind: Any) -> bool:
    """Whether *kind* is a literal, or a union the wire tells apart by looking at the value."""
    if get_origin(kind) is Literal:
        return True
    is_union = get_origin(kind) in (Union, UnionType)
    return is_union and len([arm for arm in get_args(kind) if arm is not type(None)]) > 1


def _structure_choice(value: Any, kind: Any) -> Any:
    arms = (kind,) if get_origin(kind) is Literal else get_args(kind)
    if any(_fits(value, arm) for arm in arms):
        return value
    wanted = " or ".join(word for arm in arms for word in _words(arm))
    raise TypeError(f"expected {wanted}, found {_found(value)}")


def _structure_open(value: Any, kind: Any) -> Any:
    """Take any word where words are to choose from."""
    return value if isinstance(value, str) else _structure_choice(value, kind)


def _fits(value: Any, arm: Any) -> bool:
    if arm is type(None):
        return value is None
    if get_origin(arm) is Literal:
        return value in get_args(arm)
    if get_origin(arm) is not None:
        return isinstance(value, Mapping)
    return type(value) is arm


def _words(arm: Any) -> list[str]:
    if get_origin(arm) is Literal:
        return [f'"{value}"' for value in get_args(arm)]
    if get_origin(arm) is not None:
        return ["an object"]
    return [_WORDS.get(arm, "null")]


def _found(value: Any) -> str:
    return f'"{value[:40]}"' if isinstance(value, str) else _json_type(value)


def _camel_path(place: str) -> str:
    message, _, path = place.rpartition(" @ ")
    return f"{message} @ {'.'.join(map(camel, path.split('.')))}"


def _explain(error: BaseException, _kind: Any) -> str:
    if isinstance(error, KeyError):
        return f'required field "{camel(str(error.args[0]))}" is missing'
    return str(error) or type(error).__name__


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)

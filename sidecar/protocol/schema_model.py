"""The messages of the method table as plain types, for the writers of other languages.

A shape follows from its dataclass alone, as the codec reads it: wire names, optional members, choices.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from sidecar._internal.values import Value
from sidecar.protocol.codec import to_camel, wire_name


class Scalar(Value):
    """``string``, ``integer``, ``number``, ``boolean``, ``null``, or ``any`` JSON value."""

    name: str


class Choice(Value):
    """One of some words."""

    words: tuple[str, ...]


class ListOf(Value):
    """An array."""

    item: Type


class MapOf(Value):
    """An object with any names."""

    value: Type


class Named(Value):
    """Another shape."""

    name: str


class AnyOf(Value):
    """One of several types."""

    arms: tuple[Type, ...]


Type: TypeAlias = Scalar | Choice | ListOf | MapOf | Named | AnyOf


class Property(Value):
    """One member of a shape; *default* is the JSON value of an absent member, None if it has none."""

    name: str
    type: Type
    is_required: bool
    default: Any = None


class Shape(Value):
    """One object of the wire; *doc* names its members as they are spelled there."""

    name: str
    doc: str
    properties: tuple[Property, ...]


def shapes_of(kinds: Iterable[type[Any]], *, are_sent_by_us: bool) -> dict[str, Shape]:
    """Return the shapes of *kinds* and of the dataclasses in them, by name.

    A message that is *sent by us* has every member that is not null; a client may leave out defaults.
    """
    found: dict[str, Shape] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if kind.__name__ not in found:
            hints = get_type_hints(kind)
            members = (property_of(field, hints[field.name], are_sent_by_us) for field in fields(kind))
            found[kind.__name__] = Shape(kind.__name__, wire_doc(kind.__doc__ or ""), tuple(members))
            waiting.extend(_dataclasses_in(hints.values()))
    return found


def wire_doc(docstring: str) -> str:
    """Return a docstring as one paragraph of Markdown, with members and values as they are on the wire.

    >>> wire_doc("A file. *old_text* is None at first.")
    'A file. `oldText` is null at first.'
    """
    text = re.sub(r"^ +(\w+): ", r"*\1*: ", docstring.replace("    Attributes:\n", ""), flags=re.MULTILINE)
    text = re.sub(r"\*(\w+)\*", lambda name: f"`{to_camel(name[1])}`", " ".join(text.split()))
    return re.sub(r"\bNone\b", "null", text.replace("``", "`"))


def type_of(hint: Any) -> Type:
    """Return the type of a field's annotation.

    >>> type_of(tuple[str, ...])
    ListOf(item=Scalar(name='string'))
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return Choice(arguments)
    if origin in (Union, types.UnionType):
        return AnyOf(tuple(map(type_of, arguments)))
    if origin is tuple:
        return ListOf(type_of(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return MapOf(type_of(arguments[1]))
    if is_dataclass(hint):
        return Named(hint.__name__)  # type: ignore[union-attr]  # an annotation names the class
    return Scalar(_SCALARS[hint])


_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Any: "any",
}


def property_of(field: Field[Any], hint: Any, are_sent_by_us: bool) -> Property:
    """Return *field* of type *hint* as a member; in a message of ours only a null may be left out."""
    has_default = field.default is not MISSING
    kind = type_of(hint)
    if has_default and field.default is None and isinstance(kind, AnyOf):  # it is left out when it is null
        arms = tuple(arm for arm in kind.arms if arm != Scalar("null"))
        kind = arms[0] if len(arms) == 1 else AnyOf(arms)
    is_required = not has_default or (are_sent_by_us and field.default is not None)
    default = None if is_required else field.default
    return Property(
        wire_name(field), kind, is_required, list(default) if isinstance(default, tuple) else default
    )


def _dataclasses_in(hints: Iterable[Any]) -> Iterator[type[Any]]:
    for hint in hints:
        if is_dataclass(hint) and isinstance(hint, type):
            yield hint
        else:
            yield from _dataclasses_in(arm for arm in get_args(hint) if arm is not Ellipsis)

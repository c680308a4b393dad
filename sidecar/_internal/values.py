"""Values: the base class of plain data that never changes.

A frozen dataclass is made from generated source: half a dozen functions are compiled for each class, which is
then made once more for its slots. For the six hundred of a daemon that was half of its start. A value is a
struct of msgspec instead. Nothing is compiled for it, and one is created ten times as fast.

To everyone else it is a frozen dataclass with slots: the functions of ``dataclasses`` take it, and type
checkers know its fields. The ``name`` of a field is its name on the wire. Parts that it does not have, such
as fields without comparison, need a dataclass. ``replace`` takes values alone, and a tenth of the time of the
function with its name in ``dataclasses``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from msgspec import NODEFAULT, Struct, field, structs

if TYPE_CHECKING:
    from dataclasses import replace as replace

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    class Value:
        """A frozen value; ``kw_only`` lets its fields be given by name alone."""

        __struct_fields__: ClassVar[tuple[str, ...]]

        def __init_subclass__(cls, *, kw_only: bool = False) -> None: ...

    def force_setattr(value: Value, name: str, content: object) -> None:
        """Set a field in ``__post_init__``."""

else:
    force_setattr = structs.force_setattr
    replace = structs.replace

    class _Fields:
        """The fields as ``dataclasses`` knows them, made for each class when they are first needed."""

        def __get__(self, value, kind):
            types = {
                name: hint
                for base in kind.__mro__
                for name, hint in getattr(base, "__annotations__", {}).items()
            }
            names, defaults = kind.__struct_fields__, kind.__struct_defaults__
            required = (dataclasses.MISSING,) * (len(names) - len(defaults))
            specs = []
            for name, wire, default in zip(
                names, kind.__struct_encode_fields__, required + defaults, strict=True
            ):
                factory = getattr(default, "factory", dataclasses.MISSING)
                if default is NODEFAULT or factory is not dataclasses.MISSING:
                    default = dataclasses.MISSING
                metadata = {"wire": wire} if wire != name else None
                made = dataclasses.field(default=default, default_factory=factory, metadata=metadata)
                specs.append((name, types[name], made))
            made = dataclasses.make_dataclass(
                kind.__name__,
                specs,
                namespace={"__doc__": kind.__doc__},  # without it one is written, which takes longer
                init=False,
                repr=False,
                eq=False,
                match_args=False,
            )
            kind.__dataclass_fields__ = made.__dataclass_fields__
            return made.__dataclass_fields__

    class _Frozen:
        """The exceptions of a frozen dataclass, where a struct has another one."""

        def __setattr__(self, name, content):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    class _ValueMeta(type(Struct)):
        """Gives each class the exceptions, which the struct would replace, and fields of its own."""

        def __new__(cls, name, bases, namespace, **options):
            made = super().__new__(cls, name, bases, namespace, **options)
            made.__setattr__, made.__delattr__ = _Frozen.__setattr__, _Frozen.__delattr__
            made.__dataclass_fields__ = _Fields()
            return made

    class Value(Struct, frozen=True, metaclass=_ValueMeta):
        """A frozen value."""


def hide_in_repr(*names: str) -> Callable[[Any], str]:
    """Return a ``__repr__`` of a value without the fields *names*, which are secret or long."""

    def __repr__(value: Any) -> str:
        shown = (name for name in value.__struct_fields__ if name not in names)
        return f"{type(value).__name__}({', '.join(f'{name}={getattr(value, name)!r}' for name in shown)})"

    return __repr__

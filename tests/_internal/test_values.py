"""Values are frozen, and the functions of ``dataclasses`` take them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib import import_module

import pytest
from msgspec import Struct, field

from sidecar._internal.values import Value, force_setattr, hide_in_repr, replace


class Parcel(Value):
    """A value with a field of each form."""

    weight: int
    label: str = "none"
    contents: list[str] = field(default_factory=list)


class Stamped(Value, kw_only=True):
    """A value that completes itself."""

    code: str = ""
    number: int

    def __post_init__(self) -> None:
        if not self.code:
            force_setattr(self, "code", f"no. {self.number}")


def test_the_functions_of_dataclasses_take_a_value() -> None:
    parcel = Parcel(3, contents=["pen"])
    assert dataclasses.is_dataclass(parcel)
    assert dataclasses.replace(parcel, label="blue") == Parcel(3, "blue", ["pen"])
    assert dataclasses.asdict(parcel) == {"weight": 3, "label": "none", "contents": ["pen"]}
    weight, label, contents = dataclasses.fields(Parcel)
    assert (weight.name, weight.type, weight.default) == ("weight", "int", dataclasses.MISSING)
    assert (label.default, contents.default_factory) == ("none", list)


def test_replacing_a_field_is_what_dataclasses_do() -> None:
    parcel, stamped = Parcel(3, contents=["pen"]), Stamped(number=1)
    assert replace(parcel, label="blue") == dataclasses.replace(parcel, label="blue")
    assert replace(parcel).contents is parcel.contents
    assert replace(stamped, code="", number=2) == Stamped(number=2)
    with pytest.raises(TypeError):
        replace(parcel, colour="blue")  # type: ignore[call-arg]  # the error is the point


def test_fields_by_name_may_be_required_after_others() -> None:
    code, number = dataclasses.fields(Stamped)
    assert (code.default, number.default) == ("", dataclasses.MISSING)
    assert dataclasses.replace(Stamped(number=1), number=2) == Stamped(code="no. 1", number=2)


class Login(Value):
    """A value with a secret."""

    name: str
    password: str = ""

    __repr__ = hide_in_repr("password")


def test_a_field_is_hidden_in_its_text() -> None:
    login = Login("me", "secret")
    assert (repr(login), f"{login}") == ("Login(name='me')",) * 2
    assert login != Login("me")


class Express(Parcel):
    """A value with the fields of another one and a field of its own."""

    hours: int = 24


def test_a_derived_value_has_all_its_fields() -> None:
    assert [spec.name for spec in dataclasses.fields(Parcel)] == ["weight", "label", "contents"]
    assert [spec.name for spec in dataclasses.fields(Express)] == ["weight", "label", "contents", "hours"]
    assert dataclasses.replace(Express(1), hours=2) == Express(1, hours=2)


def test_a_value_never_changes() -> None:
    parcel = Parcel(3)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'weight'"):
        parcel.weight = 4  # type: ignore[misc]  # it is refused
    with pytest.raises(dataclasses.FrozenInstanceError):
        parcel.colour = "red"  # type: ignore[attr-defined]  # it has no such field
    with pytest.raises(dataclasses.FrozenInstanceError):
        del parcel.label
    assert parcel == Parcel(3)
    assert hash(Stamped(number=1)) == hash(Stamped(number=1))


def classes(kind: type[Struct]) -> Iterator[type[Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from classes(each)


def test_no_field_is_one_of_dataclasses() -> None:
    """A struct would take the object that ``dataclasses.field`` returns for the default itself."""
    import_module("sidecar.boot")
    wrong = {
        each
        for each in classes(Struct)
        if any(isinstance(default, dataclasses.Field) for default in each.__struct_defaults__)
    }
    assert wrong == set()

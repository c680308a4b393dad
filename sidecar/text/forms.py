"""Forms: questions to a user as flat JSON schemas, in the shape of the Model Context Protocol. Pure.

A form is an object schema of texts, numbers, yes or no, one of several choices, or some of them; nothing is
nested. Such a schema comes from our own tool or from a stranger's server. So it is read
here once, field by field: a property of another shape is a text, and an answer is checked against the fields
before anyone relies on it. A ``pattern`` is not checked, because a stranger's one may take for ever; its
server checks it again.

>>> fit_content({"properties": {"port": {"type": "integer", "maximum": 9999}}}, {"port": "7013", "odd": 1})
{'port': 7013}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.values import Value, replace
from sidecar.text.visible import make_visible

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]

_TRUE: Final = ("true", "yes", "y", "on", "1")
_FALSE: Final = ("false", "no", "n", "off", "0")
_DONE: Final = "Done"
_FORMAT_CHARS: Final = 20
_TYPES: Final = {"text": "string", "choice": "string", "choices": "array"}
_BOUNDS: Final = {"text": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}


class FormChoice(Value):
    """One choice: the *value* that stands in the answer, and the *label* that the user reads."""

    value: str
    label: str


class FormField(Value, kw_only=True):
    """One field of a form.

    Attributes:
        name: its name in the answer.
        label: the question, or the name of the field for people.
        kind: ``choice`` is one of *choices*, ``choices`` are any number of them.
        description: more about it, empty for nothing.
        default: the answer that is offered, None for none.
        is_required: whether a form without it cannot be sent.
        least: the smallest number, or the least number of characters or choices; None for no bound.
        most: the largest, as *least*.
        format: the kind of a text, such as ``email``, for clients alone; empty for any.
    """

    name: str
    label: str
    kind: FieldKind
    description: str = ""
    choices: tuple[FormChoice, ...] = ()
    default: Any = None
    is_required: bool = False
    least: float | None = None
    most: float | None = None
    format: str = ""

    def read(self, given: Any) -> Any:
        """Return an answer as the form wants it; text that was typed counts too. Raises ValueError."""
        if self.kind == "boolean":
            return read_boolean(given)
        if self.kind == "choice":
            return self.read_choice(given)
        value: Any
        if self.kind == "choices":
            items = given.split(",") if isinstance(given, str) else given
            if not isinstance(items, Sequence):
                raise ValueError("is not a list of choices")
            value = [*dict.fromkeys(self.read_choice(each) for each in items if each != "")]
            self._check_bounds(len(value), "choices")
        elif self.kind == "text":
            if not isinstance(given, str):
                raise ValueError("is not a text")
            value = given
            self._check_bounds(len(value), "characters")
        else:
            value = read_number(given, is_whole=self.kind == "integer")
            self._check_bounds(value, "")
        return value

    def read_choice(self, given: Any) -> str:
        """Return the value of the choice that *given* names: its value, its label, or its number from 1."""
        text = str(given).strip()
        for choice in self.choices:
            if given == choice.value or text.casefold() in (choice.value.casefold(), choice.label.casefold()):
                return choice.value
        if text.isdecimal() and 0 < int(text) <= len(self.choices):
            return self.choices[int(text) - 1].value
        raise ValueError(f"is not one of {', '.join(each.label for each in self.choices)}")

    def as_property(self) -> dict[str, Any]:
        """Return the field as a property of a schema."""
        is_plain = all(each.label == each.value for each in self.choices)
        titled = [{"const": each.value, "title": each.label} for each in self.choices]
        plain = [each.value for each in self.choices]
        least, most = _BOUNDS.get(self.kind, ("minimum", "maximum"))
        made = {
            "type": _TYPES.get(self.kind, self.kind),
            "title": self.label,
            "description": self.description or None,
            "format": self.format or None,
            least: self.least,
            most: self.most,
            "default": self.default,
        }
        if self.kind == "choices":
            made["items"] = {"type": "string", "enum": plain} if is_plain else {"anyOf": titled}
        elif self.kind == "choice":
            made |= {"enum": plain} if is_plain else {"oneOf": titled}
        return {name: value for name, value in made.items() if value is not None}

    def show(self, value: Any) -> str:
        """Return an answer in words."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list | tuple):
            return ", ".join(map(self.show, value))
        return next((each.label for each in self.choices if each.value == value), str(value))

    def _check_bounds(self, size: float, unit: str) -> None:
        if self.least is not None and size < self.least:
            raise ValueError(f"is less than {self.least:g} {unit}".rstrip())
        if self.most is not None and size > self.most:
            raise ValueError(f"is more than {self.most:g} {unit}".rstrip())


class FormButton(Value):
    """A whole answer that one button stands for."""

    label: str
    content: Mapping[str, Any]


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of a form, in their order; a property of an unknown shape is a text.

    >>> fields_of({"properties": {"db": {"enum": ["a", "b"], "default": "b"}}})[0].choices[1].label
    'b'
    """
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ()
    names = required if isinstance(required, list | tuple) else ()
    return tuple(
        read_field(str(name), each if isinstance(each, Mapping) else {}, is_required=name in names)
        for name, each in properties.items()
    )


def normalise_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a stranger with the known parts alone, and with hidden characters shown.

    >>> normalise_schema({"properties": {"a": {"type": "integer", "$ref": "x"}}, "required": ["a"]})
    {'type': 'object', 'properties': {'a': {'type': 'integer', 'title': 'a'}}, 'required': ['a']}
    """
    fields = fields_of(schema)
    return {
        "type": "object",
        "properties": {field.name: field.as_property() for field in fields},
        "required": [field.name for field in fields if field.is_required],
    }


def fit_content(schema: Mapping[str, Any], content: Any) -> dict[str, Any]:
    """Return an answer as *schema* wants it: known fields alone, numbers as numbers, defaults where missing.

    Raises:
        ValueError: the answer does not fit; the message names the field and the mistake.
    """
    if content is not None and not isinstance(content, Mapping):
        raise ValueError("the answer is not an object")
    fitted: dict[str, Any] = {}
    for field in fields_of(schema):
        given = (content or {}).get(field.name)
        if given is None or (given == "" and field.kind != "text"):
            given = field.default
        if given is None:
            if field.is_required:
                raise ValueError(f"{field.label}: an answer is missing")
            continue
        try:
            fitted[field.name] = field.read(given)
        except ValueError as error:
            raise ValueError(f"{field.label}: {error}") from None
    return fitted


def buttons_of(schema: Mapping[str, Any]) -> tuple[FormButton, ...]:
    """Return a button for each answer, where a form is one choice; none where it needs more.

    >>> [button.label for button in buttons_of({"properties": {"ok": {"type": "boolean"}}})]
    ['Yes', 'No']
    >>> buttons_of({"properties": {"name": {"type": "string"}}})
    ()
    """
    fields = fields_of(schema)
    if not fields:
        return (FormButton(_DONE, {}),)
    if len(fields) > 1:
        return ()
    (field,) = fields
    if field.kind == "boolean":
        return tuple(
            FormButton(label, {field.name: value}) for label, value in (("Yes", True), ("No", False))
        )
    if field.kind != "choice":
        return ()
    return tuple(FormButton(each.label, {field.name: each.value}) for each in field.choices)


def describe_form(message: str, schema: Mapping[str, Any], url: str | None = None) -> str:
    """Return a form as text, for a client without forms.

    >>> print(describe_form("Which?", {"properties": {"q1": {"title": "Which?", "enum": ["a", "b"]}}}))
    Which?
    - a
    - b
    """
    lines = [message, *filter(None, (url,))]
    for field in fields_of(schema):
        if field.label != message:
            lines.append(f"{field.label}{f' ({field.description})' if field.description else ''}")
        lines += [f"- {choice.label}" for choice in field.choices]
        if field.default is not None:
            lines.append(f"Without an answer: {field.show(field.default)}")
    return "\n".join(lines)


def describe_answer(schema: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return an answer as one line for each field.

    >>> describe_answer({"properties": {"ok": {"type": "boolean", "title": "Go on?"}}}, {"ok": True})
    'Go on? yes'
    """
    shown = ((field, content[field.name]) for field in fields_of(schema) if field.name in content)
    return "\n".join(
        f"{field.label}{'' if field.label.endswith(('?', ':')) else ':'} {field.show(value)}"
        for field, value in shown
    )


def read_boolean(given: Any) -> bool:
    """Return yes or no, also of the word for it. Raises ValueError."""
    if isinstance(given, bool):
        return given
    word = str(given).strip().casefold()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("is neither yes nor no")
    return word in _TRUE


def read_number(given: Any, *, is_whole: bool) -> float | int:
    """Return a number, also of the text of one. Raises ValueError."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError("is not a number")
    try:
        number = float(given)
    except ValueError:
        raise ValueError("is not a number") from None
    if not number.is_integer():
        if is_whole or number != number or number in (float("inf"), float("-inf")):
            raise ValueError("is not a whole number" if is_whole else "is not a number")
        return number
    return int(number) if is_whole or isinstance(given, int) else number


def read_field(name: str, raw: Mapping[str, Any], *, is_required: bool) -> FormField:
    """Return one property of a schema as a field."""
    kind, choices = read_kind(raw)
    least, most = _BOUNDS.get(kind, ("minimum", "maximum"))
    field = FormField(
        name=name,
        label=make_visible(str(raw.get("title") or raw.get("description") or name)),
        kind=kind,
        description=make_visible(str(raw["description"]))
        if raw.get("title") and raw.get("description")
        else "",
        choices=choices,
        is_required=is_required,
        least=_as_bound(raw.get(least)),
        most=_as_bound(raw.get(most)),
        format=str(raw.get("format") or "")[:_FORMAT_CHARS] if kind == "text" else "",
    )
    try:
        default = None if raw.get("default") is None else field.read(raw["default"])
    except ValueError:
        default = None
    return replace(field, default=default)


def read_kind(raw: Mapping[str, Any]) -> tuple[FieldKind, tuple[FormChoice, ...]]:
    """Return the kind of a property, and its choices."""
    if raw.get("type") == "array":
        items = raw.get("items")
        return "choices", _read_choices(items if isinstance(items, Mapping) else {})
    if choices := _read_choices(raw):
        return "choice", choices
    kinds: dict[Any, FieldKind] = {"number": "number", "integer": "integer", "boolean": "boolean"}
    return kinds.get(raw.get("type"), "text"), ()


def _read_choices(raw: Mapping[str, Any]) -> tuple[FormChoice, ...]:
    """Return the choices of a property: titled ones, or plain ones with their names in the older spelling."""
    titled = raw.get("oneOf") or raw.get("anyOf")
    if isinstance(titled, Iterable) and not isinstance(titled, str | Mapping):
        found = [each for each in titled if isinstance(each, Mapping) and isinstance(each.get("const"), str)]
        return tuple(
            FormChoice(each["const"], make_visible(str(each.get("title") or each["const"]))) for each in found
        )
    plain, names = raw.get("enum"), raw.get("enumNames")
    if not isinstance(plain, list | tuple):
        return ()
    labels = names if isinstance(names, list | tuple) and len(names) == len(plain) else plain
    return tuple(
        FormChoice(str(value), make_visible(str(label))) for value, label in zip(plain, labels, strict=True)
    )


def _as_bound(raw: Any) -> float | None:
    return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None
